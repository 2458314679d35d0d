package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"

	"github.com/leasehold-io/leasehold/hack/image/archive"
	"github.com/leasehold-io/leasehold/test/cluster"
	"github.com/leasehold-io/leasehold/test/faults/checker"
	"github.com/leasehold-io/leasehold/test/faults/postgres"
	"github.com/leasehold-io/leasehold/test/faults/store"
)

// Nodes of the local cluster.
var Nodes = []string{"lh-n1", "lh-n2"}

const (
	// hostAddress is the machine's address on the nodes' bridge.
	hostAddress = "10.89.0.1"
	workerImage = "leasehold/faults-worker:dev"
	// patience bounds one request of ours with its repeats; an outage of the API server is much shorter.
	patience = 3 * time.Minute
)

// Harness is a cluster that can be hurt.
type Harness struct {
	*cluster.Cluster
	Namespace string
	Journals  string // directory
	// Versions of what runs.
	Kubernetes, PostgreSQL string

	database *postgres.Server
	from     time.Time
	canGoOn  bool // the CRD knows lease.onRenewalFailure

	mu      sync.Mutex
	outages []checker.Interval
}

// Start builds the images from this checkout and brings up everything. Progress goes to out.
func Start(ctx context.Context, out io.Writer) (h *Harness, err error) {
	if os.Getuid() != 0 {
		return nil, errors.New("the local cluster runs kubelets and network namespaces, which needs root")
	}
	if err := buildImages(ctx, out); err != nil {
		return nil, err
	}
	h = &Harness{}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.Stop(context.WithoutCancel(ctx)))
		}
	}()
	if h.Cluster, err = cluster.Start(ctx, cluster.Local, out); err != nil {
		return h, err
	}
	if _, err := h.Localcluster(ctx, "load", workerArchive); err != nil {
		return h, err
	}
	if h.database, err = postgres.Start(ctx, out, hostAddress, "127.0.0.1"); err != nil {
		return h, err
	}
	conn, err := h.connect(ctx)
	if err != nil {
		return h, err
	}
	h.PostgreSQL = conn.PgConn().ParameterStatus("server_version")
	if err := errors.Join(store.Setup(ctx, conn), conn.Close(ctx)); err != nil {
		return h, err
	}
	if h.Kubernetes, err = h.version(); err != nil {
		return h, err
	}
	if h.Journals, err = os.MkdirTemp("", "leasehold-journals-"); err != nil {
		return h, err
	}
	if err := os.Chmod(h.Journals, 0o777|os.ModeSticky); err != nil { // workers are not root
		return h, err
	}
	if h.canGoOn, err = h.knowsOnRenewalFailure(ctx); err != nil {
		return h, err
	}
	return h, h.makeNamespace(ctx)
}

const workerArchive = "bin/faults-worker.tar"

// buildImages makes the archives that cluster.Start loads, and the worker's.
func buildImages(ctx context.Context, out io.Writer) error {
	mod, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return fmt.Errorf("go env GOMOD: %w", err)
	}
	root := filepath.Dir(strings.TrimSpace(string(mod)))
	binary := filepath.Join(root, "bin", "faults-worker")
	for _, argv := range [][]string{
		{"make", "images"},
		{"env", "CGO_ENABLED=0", "go", "build", "-trimpath", "-ldflags=-s -w", "-o", binary, "./test/faults/worker"},
	} {
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = root, out, out
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %w", strings.Join(argv, " "), err)
		}
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	return archive.Write(filepath.Join(root, workerArchive), archive.Spec{
		Tag: workerImage, Entries: []archive.Entry{archive.File("/worker", 0o755, content)}, Entrypoint: []string{"/worker"}, User: "1000:1000",
	})
}

// makeNamespace is not restricted: journals are on the nodes' file system.
func (h *Harness) makeNamespace(ctx context.Context) error {
	h.from = time.Now()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "faults-"}}
	if err := h.Create(ctx, ns); err != nil {
		return err
	}
	h.Namespace = ns.Name
	return h.Poll(ctx, patience, func() error { // the admission plugin wants the account to exist
		return h.Get(ctx, types.NamespacedName{Namespace: ns.Name, Name: "default"}, &corev1.ServiceAccount{})
	})
}

// Stop ends the database and the cluster and removes the journals. LEASEHOLD_KEEP=1 leaves the cluster and the journals.
func (h *Harness) Stop(ctx context.Context) error {
	var errs []error
	if h.database != nil {
		errs = append(errs, h.database.Stop())
	}
	if os.Getenv("LEASEHOLD_KEEP") != "" {
		return errors.Join(errs...)
	}
	if h.Cluster != nil {
		errs = append(errs, h.Cluster.Stop(ctx))
	}
	if h.Journals != "" {
		errs = append(errs, os.RemoveAll(h.Journals))
	}
	return errors.Join(errs...)
}

// Try repeats a request until the API server gives an answer that is one. That what is to be made exists already is the echo of a
// request whose answer was lost.
func (h *Harness) Try(ctx context.Context, request func() error) error {
	return h.Poll(ctx, patience, func() error {
		err := request()
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
}

// Repair puts everything of the cluster back that a fault took away.
func (h *Harness) Repair(ctx context.Context) error {
	_, err := h.Localcluster(ctx, "up")
	return err
}

// StopAPI stops the API server and notes that the audit log may lack something.
func (h *Harness) StopAPI(ctx context.Context) error {
	h.mu.Lock()
	h.outages = append(h.outages, checker.Interval{From: time.Now()})
	h.mu.Unlock()
	_, err := h.Localcluster(ctx, "api-stop")
	return err
}

// StartAPI starts it again.
func (h *Harness) StartAPI(ctx context.Context) error {
	if _, err := h.Localcluster(ctx, "api-start"); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.outages {
		if h.outages[i].To.IsZero() {
			h.outages[i].To = time.Now()
		}
	}
	return nil
}

func (h *Harness) version() (string, error) {
	client, err := discovery.NewDiscoveryClientForConfig(h.Config)
	if err != nil {
		return "", err
	}
	v, err := client.ServerVersion()
	if err != nil {
		return "", err
	}
	return v.GitVersion, nil
}

func (h *Harness) connect(ctx context.Context) (*pgx.Conn, error) {
	return pgx.Connect(ctx, h.database.URL("127.0.0.1"))
}
