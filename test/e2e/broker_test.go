package e2e

import (
	"bufio"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	certutil "k8s.io/client-go/util/cert"
)

// broker is a NATS server with JetStream: the real one, a process of its own where the Pods can reach it, with TLS and a password. What
// it has stored outlives it.
type broker struct {
	*story
	url, ca           string // with the password; the path of the certificate
	server, stream    string // programs
	address, password string
	dir               string
	process           *exec.Cmd
}

// published is a message in its stream.
type published struct{ Key, ID, Subject, Data string }

// startBroker runs a server, and makes the stream on it.
func (s *story) startBroker(programs string) *broker {
	s.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(hostAddress, "0"))
	s.ok(err)
	b := &broker{story: s, dir: s.TempDir(), address: listener.Addr().String(), password: rand.Text(),
		server: filepath.Join(programs, "nats-server"), stream: filepath.Join(programs, "stream")}
	s.ok(listener.Close())
	b.url = (&url.URL{Scheme: "tls", User: url.UserPassword("relay", b.password), Host: b.address}).String()
	b.ca = filepath.Join(b.dir, "cert.pem")
	b.configure()
	b.start()
	b.client("make")
	s.Cleanup(b.kill)
	return b
}

func (b *broker) configure() {
	b.Helper()
	cert, key, err := certutil.GenerateSelfSignedCertKey(hostAddress, []net.IP{net.ParseIP(hostAddress)}, nil)
	b.ok(err)
	b.ok(os.WriteFile(b.ca, cert, 0o600))
	b.ok(os.WriteFile(filepath.Join(b.dir, "key.pem"), key, 0o600))
	config := fmt.Sprintf(`listen: %q
jetstream { store_dir: %q, sync_interval: always }
authorization { user: relay, password: %q }
tls { cert_file: %q, key_file: %q }
`, b.address, b.dir, b.password, b.ca, filepath.Join(b.dir, "key.pem"))
	b.ok(os.WriteFile(filepath.Join(b.dir, "config"), []byte(config), 0o600))
}

func (b *broker) start() {
	b.Helper()
	b.process = exec.Command(b.server, "-c", filepath.Join(b.dir, "config"), "-l", filepath.Join(b.dir, "log"))
	b.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	b.ok(b.process.Start())
	b.ok(b.Poll(b.ctx, time.Minute, func() error {
		conn, err := net.Dial("tcp", b.address)
		if err != nil {
			return err
		}
		return conn.Close()
	}))
}

// kill ends the server at once. Who connects then is refused.
func (b *broker) kill() {
	_ = b.process.Process.Kill()
	_ = b.process.Wait()
}

// freeze lets the server take connections and say nothing, until thaw.
func (b *broker) freeze() { b.ok(b.process.Process.Signal(syscall.SIGSTOP)) }

func (b *broker) thaw() { b.ok(b.process.Process.Signal(syscall.SIGCONT)) }

func (b *broker) client(command string) string {
	b.Helper()
	cmd := exec.CommandContext(b.ctx, b.stream, command)
	cmd.Env = []string{"NATS_URL=" + b.url, "SSL_CERT_FILE=" + b.ca}
	var problems strings.Builder
	cmd.Stderr = &problems
	printed, err := cmd.Output()
	b.must(err == nil, "stream %s: %v: %s", command, err, problems.String())
	return string(printed)
}

// published is what the stream holds, oldest first.
func (b *broker) published() (messages []published) {
	b.Helper()
	for lines := bufio.NewScanner(strings.NewReader(b.client("read"))); lines.Scan(); {
		var m published
		b.ok(json.Unmarshal(lines.Bytes(), &m))
		messages = append(messages, m)
	}
	return messages
}

// metric sums up one line of the metrics of several Pods.
func metric(pages []string, name string) (sum float64) {
	for _, page := range pages {
		for line := range strings.Lines(page) {
			if value, found := strings.CutPrefix(line, name+" "); found {
				n, _ := strconv.ParseFloat(strings.TrimSpace(value), 64)
				sum += n
			}
		}
	}
	return sum
}
