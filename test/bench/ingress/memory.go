package ingress

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/leasehold-io/leasehold/test/cluster"
)

// Sample is what one replica of the operator took at a time.
type Sample struct {
	At       time.Duration // since the scale was made
	Pod      string
	Resident float64 // bytes of memory
	Heap     float64 // bytes of it that are in use
}

// Scale weighs the operator by the metrics of its replicas. It reaches Pods at their own addresses, and reads metrics with the token of the
// kubeconfig, so it works on the local cluster only.
type Scale struct {
	c     *cluster.Cluster
	begun time.Time
	http  *http.Client
}

// NewScale is a scale for the operator of a cluster.
func NewScale(c *cluster.Cluster) *Scale {
	insecure := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // the endpoint's certificate is self-signed
	return &Scale{c: c, begun: time.Now(), http: &http.Client{Transport: insecure, Timeout: 5 * time.Second}}
}

// Weigh weighs every replica, every second until the context ends.
func (s *Scale) Weigh(ctx context.Context) (samples []Sample, err error) {
	for {
		now, err := s.Once(ctx)
		if ctx.Err() != nil {
			return samples, nil
		}
		if err != nil {
			return samples, err
		}
		samples = append(samples, now...)
		select {
		case <-ctx.Done():
			return samples, nil
		case <-time.After(time.Second):
		}
	}
}

// Once weighs every replica.
func (s *Scale) Once(ctx context.Context) (samples []Sample, err error) {
	pods := &corev1.PodList{}
	if err := s.c.List(ctx, pods, client.InNamespace("leasehold-system"), client.MatchingLabels{"app.kubernetes.io/component": "manager"}); err != nil {
		return nil, err
	}
	for _, pod := range pods.Items {
		if pod.Status.PodIP == "" || pod.DeletionTimestamp != nil {
			continue
		}
		sample, err := s.read(ctx, pod.Status.PodIP)
		if err != nil {
			return nil, fmt.Errorf("read metrics of %s: %w", pod.Name, err)
		}
		sample.Pod, sample.At = pod.Name, time.Since(s.begun)
		samples = append(samples, sample)
	}
	return samples, nil
}

func (s *Scale) read(ctx context.Context, address string) (sample Sample, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+":8443/metrics", nil)
	if err != nil {
		return sample, err
	}
	request.Header.Set("Authorization", "Bearer "+s.c.Config.BearerToken)
	response, err := s.http.Do(request)
	if err != nil {
		return sample, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return sample, fmt.Errorf("%s", response.Status)
	}
	values, err := gauges(response.Body, "process_resident_memory_bytes", "go_memstats_heap_inuse_bytes")
	if err != nil {
		return sample, err
	}
	sample.Resident, sample.Heap = values[0], values[1]
	return sample, nil
}

// gauges reads metrics without labels.
func gauges(from io.Reader, names ...string) ([]float64, error) {
	values := make([]float64, len(names))
	found := 0
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		for i, name := range names {
			if value, is := strings.CutPrefix(lines.Text(), name+" "); is {
				var err error
				if values[i], err = strconv.ParseFloat(value, 64); err != nil {
					return nil, err
				}
				found++
			}
		}
	}
	if found != len(names) {
		return nil, fmt.Errorf("not all of %v are there", names)
	}
	return values, lines.Err()
}
