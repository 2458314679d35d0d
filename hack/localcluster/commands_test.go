package main

import (
	"errors"
	"testing"
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

func TestRunRefusesWrongArguments(t *testing.T) {
	for _, args := range [][]string{nil, {"unknown"}, {"up", "now"}, {"load"}, {"partition"}, {"node-exec", "lh-n1"}, {"freeze"}} {
		if err := run(t.Context(), args); !errors.Is(err, errUsage) {
			t.Errorf("run(%v) = %v, want usage", args, err)
		}
	}
}
