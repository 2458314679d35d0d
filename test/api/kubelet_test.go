//go:build linux

package api

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	realagent "github.com/leasehold-io/leasehold/internal/agent"
	"github.com/leasehold-io/leasehold/internal/agent/agenttest"
	realholder "github.com/leasehold-io/leasehold/internal/fencing/holder"
	"github.com/leasehold-io/leasehold/test/cluster"
)

// renewEvery replaces the agents' renew interval, so that a story is short. What their trust rests on stays as it is.
const renewEvery = time.Second

// kubelet plays the node of one task: it runs the real agent in every Pod that the operator makes, and tells how it ended.
// Once, if its fate comes true, the agent dies.
type kubelet struct {
	*scene
	task *v1alpha1.LeasedTask
	job  job
	fate fate

	server *url.URL // the API server
	direct http.RoundTripper

	mu     sync.Mutex
	writes []string          // that the API server accepted, in order
	death  death             // where the agent died; empty: it did not
	ran    map[types.UID]int // how many children each Pod has started
}

// job is what every child does, and what happens to it on the way.
type job struct {
	Renewals     int  // how long it works
	ExitCode     int  // 0: it leaves a result
	LosesAnswers bool // the first answer to each claim, and to each submission, is lost
	Restarts     bool // a second process is started in the place of one that died
}

// fate is the write that an agent dies of. Writes are counted over all processes, from 1; 0: nobody dies.
type fate struct {
	Write  int
	Before bool // it does not reach the API server any more; else its answer does not reach the agent
}

// death is where an agent died.
type death struct {
	Attempt int
	Where   string // "after Claim"
}

func newKubelet(s *scene, job job, fate fate) *kubelet {
	s.Helper()
	k := &kubelet{scene: s, job: job, fate: fate, ran: map[types.UID]int{}}
	var err error
	k.server, _, err = rest.DefaultServerUrlFor(config)
	s.ok(err)
	k.direct, err = rest.TransportFor(rest.AnonymousClientConfig(config)) // the token is the agent's
	s.ok(err)
	return k
}

// untilFinished runs Pods until the task is finished.
func (k *kubelet) untilFinished() {
	k.Helper()
	k.ok(k.Poll(k.Context(), patience, func() error {
		if err := admin.Get(k.Context(), client.ObjectKeyFromObject(k.task), k.task); err != nil || cluster.IsFinished(k.task) {
			return err
		}
		pods, err := k.Pods(k.Context(), k.task)
		for i := range pods {
			if _, isKnown := k.ran[pods[i].UID]; !isKnown {
				k.host(&pods[i])
			}
		}
		return errors.Join(err, fmt.Errorf("dead %+v: the task is not finished: %s", k.death, cluster.Describe(k.task)))
	}))
}

// host is the life of one Pod on the node.
func (k *kubelet) host(pod *corev1.Pod) {
	k.Helper()
	k.ran[pod.UID] = 0
	k.ok(admin.SubResource("binding").Create(k.Context(), pod, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: node}}))
	k.ok(admin.Get(k.Context(), client.ObjectKeyFromObject(pod), pod))
	started := metav1.Now()
	k.report(pod, corev1.PodRunning, corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}})
	p := k.newProcess(pod)
	code, message := p.live()
	if p.isDead && k.job.Restarts {
		p = k.newProcess(pod)
		code, message = p.live()
	}
	pods, err := k.Pods(k.Context(), k.task)
	k.ok(err)
	if len(pods) > len(k.ran) && !p.hasSubmitted {
		k.Errorf("dead %+v: the next Pod was made before the end of Pod %s was told", k.death, pod.Name)
	}
	phase, reason := corev1.PodSucceeded, "Completed"
	if code != 0 {
		phase, reason = corev1.PodFailed, "Error"
	}
	k.report(pod, phase, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: int32(code), Reason: reason,
		Message: message, ContainerID: "containerd://1", StartedAt: started, FinishedAt: metav1.Now()}})
}

func (k *kubelet) report(pod *corev1.Pod, phase corev1.PodPhase, worker corev1.ContainerState) {
	k.Helper()
	before := mergeFrom(pod)
	pod.Status.Phase = phase
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "worker", State: worker}}
	k.ok(admin.Status().Patch(k.Context(), pod, before))
}

// process is one agent process. It reaches the API server only over a wire of its own, where it loses answers and dies.
type process struct {
	*kubelet
	pod   *corev1.Pod
	dir   string
	child *child

	hasClaimed   bool
	hasSubmitted bool
	hasLost      map[agenttest.Kind]bool // an answer
	isDead       bool
	kill         context.CancelFunc
	lastWords    string // what stood in the termination log when it died
}

func (k *kubelet) newProcess(pod *corev1.Pod) *process {
	p := &process{kubelet: k, pod: pod, dir: k.TempDir(), hasLost: map[agenttest.Kind]bool{}}
	p.child = &child{process: p, left: k.job.Renewals, exited: make(chan realholder.Exit, 1), empty: make(chan struct{})}
	return p
}

// live runs the agent to its end, and returns what a kubelet sees of that: exit code and termination message.
func (p *process) live() (code int, message string) {
	p.Helper()
	wire := httptest.NewTLSServer(p)
	defer wire.Close()
	cfg, err := realagent.ConfigFrom(p.environment(wire.Listener.Addr()))
	p.ok(err)
	cfg.Timing.Renew = renewEvery
	cfg.TerminationLog = p.write("termination-log", nil)
	cfg.TokenPath = p.write("token", []byte(p.boundToken(p.pod)))
	cfg.CAPath = p.write("ca.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: wire.Certificate().Raw}))
	cfg.ResultPath, cfg.CgroupRoot = filepath.Join(p.dir, "result"), p.dir
	cfg.SocketPath, cfg.CheckpointPath = filepath.Join(p.dir, "s"), filepath.Join(p.dir, "checkpoint")
	mailbox, err := realagent.NewLeaseMailbox(cfg, cfg.Claim(fmt.Sprint(rand.Uint64())))
	p.ok(err)
	alarm, err := realagent.NewTimerAlarm()
	p.ok(err)
	defer func() { _ = alarm.Close() }()
	ctx, kill := context.WithTimeout(p.Context(), patience)
	defer kill()
	p.kill = kill
	a := &realagent.Agent{Config: cfg, Mailbox: mailbox, Tree: p.child, Clock: realagent.SystemClock(time.Now), Alarm: alarm,
		Signals: make(chan os.Signal), Jitter: rand.Float64, Log: slog.New(slog.NewTextHandler(p.Output(), nil))}
	code = a.Run(ctx)
	if p.isDead { // it only has not noticed
		return 128 + int(syscall.SIGKILL), p.lastWords
	}
	p.must(ctx.Err() == nil, "dead %+v: the agent of Pod %s does not end", p.death, p.pod.Name)
	return code, p.terminationLog()
}

// environment is the worker container's, as a kubelet resolves it, with the wire for the API server.
func (p *process) environment(wire net.Addr) func(string) string {
	host, port, err := net.SplitHostPort(wire.String())
	p.ok(err)
	values := map[string]string{"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
	fields := map[string]string{"metadata.name": p.pod.Name, "metadata.uid": string(p.pod.UID), "spec.nodeName": p.pod.Spec.NodeName}
	for _, v := range p.pod.Spec.Containers[0].Env {
		values[v.Name] = v.Value
		if v.ValueFrom != nil {
			values[v.Name] = fields[v.ValueFrom.FieldRef.FieldPath]
		}
	}
	return func(name string) string { return values[name] }
}

func (p *process) write(name string, content []byte) (path string) {
	path = filepath.Join(p.dir, name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		p.Error(err)
	}
	return path
}

func (p *process) terminationLog() string {
	content, err := os.ReadFile(filepath.Join(p.dir, "termination-log"))
	if err != nil {
		p.Error(err)
	}
	return string(content)
}

// ServeHTTP is the agent's end of the wire. It takes one request at a time, so that the order of writes is known.
func (p *process) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r = r.WithContext(p.Context()) // what was sent has its effect, and is counted, also if the agent no longer waits for the answer
	r.Body = io.NopCloser(bytes.NewReader(body))
	kind := agenttest.KindOf(body)
	if p.fate.Before && len(p.writes) == p.fate.Write-1 {
		p.die("before " + p.nameOf(kind))
	}
	if p.isDead {
		panic(http.ErrAbortHandler)
	}
	proxy := httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(p.server) },
		Transport:      p.direct,
		ModifyResponse: func(answer *http.Response) error { return p.pass(kind, answer.StatusCode) },
		ErrorHandler:   func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	proxy.ServeHTTP(w, r)
}

// nameOf names a write. Whatever follows the submission that landed cannot change anything any more.
func (p *process) nameOf(kind agenttest.Kind) string {
	if p.hasSubmitted {
		return "Repeat"
	}
	return string(kind)
}

var errLost = errors.New("the answer is lost")

// pass lets an answer through to the agent, unless it dies of it or loses it.
func (p *process) pass(kind agenttest.Kind, code int) error {
	if code == http.StatusOK {
		name := p.nameOf(kind)
		p.writes = append(p.writes, name)
		p.hasClaimed = p.hasClaimed || kind == agenttest.Claim
		p.hasSubmitted = p.hasSubmitted || kind == agenttest.Submit
		if !p.fate.Before && len(p.writes) == p.fate.Write {
			p.die("after " + name)
			return errLost
		}
		if kind == agenttest.Renew {
			p.child.hearsOfRenewal()
		}
	}
	isSettled := code != http.StatusForbidden // the worker's role may not have reached the API server yet
	if p.job.LosesAnswers && kind != agenttest.Renew && isSettled && !p.hasLost[kind] {
		p.hasLost[kind] = true
		return errLost
	}
	return nil
}

// die is SIGKILL: from here on nothing that the process does is seen by anybody. The kernel kills its child with it.
func (p *process) die(where string) {
	if p.death != (death{}) {
		return
	}
	p.death = death{len(p.ran), where}
	p.isDead, p.lastWords = true, p.terminationLog()
	p.kill()
	p.child.end(realholder.Exit{Code: 128 + int(syscall.SIGKILL), Signal: syscall.SIGKILL})
}

// child is the command of one process, and its whole tree.
type child struct {
	process *process
	left    int // renewals until it is done
	started bool
	once    sync.Once
	exited  chan realholder.Exit
	empty   chan struct{}
}

// Start implements [realagent.Tree].
func (c *child) Start(...string) error {
	p := c.process
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isDead {
		return nil
	}
	if !p.hasClaimed {
		p.Errorf("dead %+v: a process has started its child without having claimed", p.death)
	}
	c.started = true
	p.ran[p.pod.UID]++
	return nil
}

// hearsOfRenewal is how a child knows how long it has worked.
func (c *child) hearsOfRenewal() {
	if !c.started {
		return // a claim, repeated
	}
	if c.left--; c.left > 0 {
		return
	}
	if c.process.job.ExitCode == 0 {
		c.process.write("result", []byte("42"))
	}
	c.end(realholder.Exit{Code: c.process.job.ExitCode})
}

func (c *child) end(exit realholder.Exit) {
	c.once.Do(func() { c.exited <- exit; close(c.empty) })
}

// Kill implements [realagent.Tree].
func (c *child) Kill(sig syscall.Signal) {
	if sig == syscall.SIGKILL {
		c.end(realholder.Exit{Code: 128 + int(sig), Signal: sig})
	}
}

// Signal implements [realagent.Tree].
func (c *child) Signal(syscall.Signal, bool) {}

// Exited implements [realagent.Tree].
func (c *child) Exited() <-chan realholder.Exit { return c.exited }

// Empty implements [realagent.Tree].
func (c *child) Empty() <-chan struct{} { return c.empty }
