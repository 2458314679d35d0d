package main

import (
	"errors"
	"testing"

	"github.com/leasehold-io/leasehold/hack/localcluster/internal/cluster"
)

func TestPodArgs(t *testing.T) {
	cases := map[string]struct {
		args           []string
		wantNS, wantPo string
		wantErr        error
	}{
		"default namespace":  {[]string{"a"}, "default", "a", nil},
		"namespace behind":   {[]string{"a", "-n", "ns"}, "ns", "a", nil},
		"namespace in front": {[]string{"-n", "ns", "a"}, "ns", "a", nil},
		"joined":             {[]string{"-n=ns", "a"}, "ns", "a", nil},
		"no pod":             {[]string{"-n", "ns"}, "", "", errUsage},
		"two pods":           {[]string{"a", "b"}, "", "", errUsage},
		"no value":           {[]string{"a", "-n"}, "", "", errUsage},
		"unknown flag":       {[]string{"a", "--all"}, "", "", errUsage},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			namespace, pod, err := podArgs(tc.args)
			if !errors.Is(err, tc.wantErr) || namespace != tc.wantNS || pod != tc.wantPo {
				t.Errorf("podArgs(%v) = %q, %q, %v; want %q, %q, %v", tc.args, namespace, pod, err, tc.wantNS, tc.wantPo, tc.wantErr)
			}
		})
	}
}

func TestPartitionArgs(t *testing.T) {
	cases := map[string]struct {
		args     []string
		wantNode string
		want     cluster.Direction
	}{
		"both by default": {[]string{"n"}, "n", cluster.Both},
		"behind":          {[]string{"n", "--direction", "from"}, "n", cluster.From},
		"in front":        {[]string{"--direction", "to", "n"}, "n", cluster.To},
		"joined":          {[]string{"n", "--direction=both"}, "n", cluster.Both},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			node, direction, err := partitionArgs(tc.args)
			if err != nil || node != tc.wantNode || direction != tc.want {
				t.Errorf("partitionArgs(%v) = %q, %q, %v; want %q, %q", tc.args, node, direction, err, tc.wantNode, tc.want)
			}
		})
	}
	for _, args := range [][]string{{"--direction", "to"}, {"n", "--direction"}, {"n", "--direction", "up"}, {"n", "m"}, {"n", "--to"}} {
		if node, direction, err := partitionArgs(args); err == nil {
			t.Errorf("partitionArgs(%v) = %q, %q, want an error", args, node, direction)
		}
	}
}

func TestRunRefusesWrongArguments(t *testing.T) {
	for _, args := range [][]string{nil, {"unknown"}, {"up", "now"}, {"load"}, {"partition"}, {"node-exec", "lh-n1"}, {"freeze"}} {
		if err := run(t.Context(), args); !errors.Is(err, errUsage) {
			t.Errorf("run(%v) = %v, want usage", args, err)
		}
	}
}
