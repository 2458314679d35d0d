package cluster

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseDirection(t *testing.T) {
	for _, d := range []Direction{Both, From, To} {
		if got, err := ParseDirection(string(d)); err != nil || got != d {
			t.Errorf("ParseDirection(%q) = %q, %v", d, got, err)
		}
	}
	for _, s := range []string{"", "From", "out", "from "} {
		if got, err := ParseDirection(s); err == nil {
			t.Errorf("ParseDirection(%q) = %q, want an error", s, got)
		}
	}
}

func TestLossRulesLoseOneDirectionAtTheCable(t *testing.T) {
	cases := map[Direction]struct{ chain, at string }{From: {"POSTROUTING", "-o"}, To: {"PREROUTING", "-i"}}
	for d, want := range cases {
		rule := lossRule(d)
		if rule[0] != want.chain || rule[1] != want.at || rule[2] != "eth0" || !slices.Equal(rule[len(rule)-2:], []string{"-j", "DROP"}) {
			t.Errorf("the rule for %s is %v", d, rule)
		}
	}
}

// TestLossesInFindsWhatLossRuleMakes: iptables prints a rule as it is given on the command line, here with and without quotes.
func TestLossesInFindsWhatLossRuleMakes(t *testing.T) {
	printed := func(d Direction) string { return "-A " + strings.Join(lossRule(d), " ") + "\n" }
	const others = "-P PREROUTING ACCEPT\n-N KUBE-PROXY-CANARY\n" +
		"-A PREROUTING -i eth0 -m comment --comment leasehold-partition-tomorrow -j DROP\n" +
		"-A POSTROUTING -o eth0 -j DROP\n"
	cases := map[string]struct {
		rules string
		want  []Direction
	}{
		"none":   {others, nil},
		"from":   {others + printed(From), []Direction{From}},
		"to":     {printed(To) + others, []Direction{To}},
		"both":   {printed(To) + printed(From), []Direction{To, From}},
		"twice":  {printed(To) + printed(To), []Direction{To, To}},
		"quoted": {strings.Replace(printed(To), lossComment+"to", `"`+lossComment+`to"`, 1), []Direction{To}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, lossesIn(tc.rules)); diff != "" {
				t.Errorf("lossesIn (-want +got):\n%s", diff)
			}
		})
	}
}
