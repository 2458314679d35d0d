package cluster

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
)

// Kind says which cluster is used.
type Kind string

// The kinds of cluster.
const (
	Local   Kind = "local"   // hack/localcluster, started if it is not up
	InKind  Kind = "kind"    // a kind cluster named leasehold, created if it does not exist
	Current Kind = "current" // the current kubeconfig context
)

// Cluster is a cluster with Leasehold installed.
type Cluster struct {
	client.Client
	Config *rest.Config
	Kind   Kind

	root       string // of the checkout
	kubeconfig string
	out        io.Writer
}

// Start makes sure that the cluster is up and that Leasehold, as built in this checkout, is installed in it. Progress goes
// to out.
func Start(ctx context.Context, kind Kind, out io.Writer) (*Cluster, error) {
	root, err := checkout()
	if err != nil {
		return nil, err
	}
	c := &Cluster{Kind: kind, root: root, out: out}
	if err := c.up(ctx); err != nil {
		return nil, err
	}
	if err := c.connect(); err != nil {
		return nil, err
	}
	return c, c.Deploy(ctx)
}

// Deploy installs Leasehold as built in this checkout, or brings what is installed back to that. An annotation that changes with the
// image replaces the operator's Pods: its tag does not change.
func (c *Cluster) Deploy(ctx context.Context) error {
	built := strconv.FormatInt(time.Now().Unix(), 10)
	if c.Kind != Current {
		image, err := os.ReadFile(filepath.Join(c.root, "bin", "manager.tar"))
		if err != nil {
			return err
		}
		built = fmt.Sprintf("%x", sha256.Sum256(image))
	}
	return c.run(ctx, "make", "deploy", "HELM_ARGS=--set-string podAnnotations.built="+built+" "+os.Getenv("HELM_ARGS"))
}

func (c *Cluster) up(ctx context.Context) error {
	switch c.Kind {
	case Local:
		if err := c.run(ctx, "go", "build", "-o", "bin/localcluster", "./hack/localcluster"); err != nil {
			return err
		}
		if _, err := c.Localcluster(ctx, "up"); err != nil {
			return err
		}
		path, err := c.Localcluster(ctx, "kubeconfig")
		if err != nil {
			return err
		}
		c.kubeconfig = strings.TrimSpace(path)
		_, err = c.Localcluster(ctx, "load", "bin/manager.tar", "bin/agent.tar")
		return err
	case InKind:
		return c.upKind(ctx)
	case Current:
		return nil // kubectl, helm and client-go find it by the same rules
	}
	return fmt.Errorf("unknown cluster %q: use local, kind or current", c.Kind)
}

func (c *Cluster) upKind(ctx context.Context) error {
	c.kubeconfig = filepath.Join(c.root, "bin", "kind.kubeconfig")
	config := filepath.Join(c.root, "test", "cluster", "kind.yaml")
	if err := c.run(ctx, "kind", "export", "kubeconfig", "--name", "leasehold", "--kubeconfig", c.kubeconfig); err != nil {
		if err := c.run(ctx, "kind", "create", "cluster", "--name", "leasehold", "--config", config, "--kubeconfig", c.kubeconfig); err != nil {
			return err
		}
	}
	return c.run(ctx, "kind", "load", "image-archive", "--name", "leasehold", "bin/manager.tar", "bin/agent.tar")
}

func (c *Cluster) connect() (err error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	if c.Config, err = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig(); err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	c.Config.QPS = -1
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	c.Client, err = client.New(c.Config, client.Options{Scheme: scheme})
	return err
}

// Stop ends a local cluster and removes what it made; others stay.
func (c *Cluster) Stop(ctx context.Context) error {
	if c.Kind != Local {
		return nil
	}
	_, err := c.Localcluster(ctx, "down")
	return err
}

// Kubeconfig is the path of the cluster's kubeconfig; empty: the default one.
func (c *Cluster) Kubeconfig() string { return c.kubeconfig }

// Localcluster runs one command of hack/localcluster and returns what it printed.
func (c *Cluster) Localcluster(ctx context.Context, args ...string) (string, error) {
	return c.output(ctx, filepath.Join(c.root, "bin", "localcluster"), args...)
}

// Kubectl runs kubectl against the cluster and returns what it printed.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	return c.tool(ctx, "kubectl", args...)
}

// Helm runs helm in the checkout, against the cluster, and returns what it printed.
func (c *Cluster) Helm(ctx context.Context, args ...string) (string, error) {
	return c.tool(ctx, "helm", args...)
}

func (c *Cluster) tool(ctx context.Context, name string, args ...string) (string, error) {
	dir, err := c.tools(ctx)
	if err != nil {
		return "", err
	}
	return c.output(ctx, filepath.Join(dir, name), args...)
}

// Shell runs a line as people type it, with kubectl and helm of the cluster's version, and returns what it printed.
func (c *Cluster) Shell(ctx context.Context, line string) (string, error) {
	dir, err := c.tools(ctx)
	if err != nil {
		return "", err
	}
	path := strings.TrimPrefix(dir+":"+os.Getenv("PATH"), ":")
	return c.output(ctx, "env", "PATH="+path, "bash", "-euo", "pipefail", "-c", line)
}

// tools is the directory of kubectl and helm; empty: they are on the path.
func (c *Cluster) tools(ctx context.Context) (string, error) {
	if c.Kind != Local {
		return "", nil
	}
	dir, err := c.Localcluster(ctx, "binaries", "kubectl", "helm")
	return strings.TrimSpace(dir), err
}

func (c *Cluster) run(ctx context.Context, name string, args ...string) error {
	cmd := c.command(ctx, name, args...)
	cmd.Stdout = c.out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return nil
}

func (c *Cluster) output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := c.command(ctx, name, args...)
	var problems strings.Builder
	cmd.Stderr = io.MultiWriter(c.out, &problems)
	printed, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", filepath.Base(name), strings.Join(args, " "), err, strings.TrimSpace(problems.String()))
	}
	return string(printed), nil
}

func (c *Cluster) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = c.root
	cmd.Stderr = c.out
	cmd.Env = os.Environ()
	if c.kubeconfig != "" {
		cmd.Env = append(cmd.Env, "KUBECONFIG="+c.kubeconfig)
	}
	return cmd
}

// checkout is the directory of go.mod, from wherever below it the process was started.
func checkout() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(dir, "go.mod")); missing == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("not inside the checkout: no go.mod above")
		}
		dir = parent
	}
	return "", err
}

// For wraps a client of a cluster that somebody else runs, for the helpers that need no more.
func For(c client.Client) *Cluster { return &Cluster{Client: c} }
