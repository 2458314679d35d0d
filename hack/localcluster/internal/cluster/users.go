package cluster

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
)

// user is a client of the API server with a static token and a kubeconfig.
type user struct {
	name   string
	groups string
	config string // the kubeconfig's path
}

func (l Layout) users() []user {
	all := []user{
		{"admin", "system:masters", l.AdminKubeconfig()},
		{"system:kube-controller-manager", "", l.kubeconfig(controllerManager)},
		{"system:kube-scheduler", "", l.kubeconfig(scheduler)},
		{"system:kube-proxy", "", l.kubeconfig("kube-proxy")},
	}
	for _, n := range l.Nodes {
		all = append(all, user{"system:node:" + n.Name, "system:nodes", l.kubeconfig(n.Name)})
	}
	return all
}

// writeUsers gives each user a fresh token.
func (l Layout) writeUsers() error {
	ca, err := os.ReadFile(l.pkiFile("ca.crt"))
	if err != nil {
		return fmt.Errorf("read authority: %w", err)
	}
	var tokens strings.Builder
	for _, u := range l.users() {
		token, err := randomToken()
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(&tokens, "%s,%s,%s", token, u.name, u.name)
		if u.groups != "" {
			_, _ = fmt.Fprintf(&tokens, ",%q", u.groups)
		}
		_, _ = fmt.Fprintln(&tokens)
		content, err := render("kubeconfig", map[string]string{
			"Server": apiServer, "CA": base64.StdEncoding.EncodeToString(ca), "User": u.name, "Token": token,
		})
		if err != nil {
			return err
		}
		if err := os.WriteFile(u.config, content, 0o600); err != nil {
			return fmt.Errorf("write kubeconfig: %w", err)
		}
		if u.config == l.AdminKubeconfig() {
			if err := os.WriteFile(l.adminToken(), []byte(token), 0o600); err != nil {
				return fmt.Errorf("write token: %w", err)
			}
		}
	}
	return os.WriteFile(l.pkiFile("tokens.csv"), []byte(tokens.String()), 0o600)
}

func randomToken() (string, error) {
	raw := make([]byte, 24)
	if _, err := rand.Read(raw); err != nil {
		return "", fmt.Errorf("make token: %w", err)
	}
	return hex.EncodeToString(raw), nil
}
