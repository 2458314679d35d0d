package plan

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
)

// drawBackoff draws any back-off that the API takes.
func drawBackoff(t *rapid.T) *v1alpha1.BackoffSpec {
	initial := rapid.Int32Range(1, 86400).Draw(t, "initial")
	return &v1alpha1.BackoffSpec{
		InitialSeconds: initial,
		MaxSeconds:     rapid.Int32Range(initial, 86400).Draw(t, "max"),
		Factor:         rapid.Int32Range(1, 10).Draw(t, "factor"),
		Jitter:         rapid.SampledFrom([]v1alpha1.Jitter{"", v1alpha1.JitterFull, v1alpha1.JitterEqual, v1alpha1.JitterNone}).Draw(t, "jitter"),
	}
}

// TestCase27BackoffStaysInBounds: no number of attempts overflows, and no pause is negative or above the maximum.
func TestCase27BackoffStaysInBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawBackoff(t)
		n := rapid.OneOf(rapid.Int32Range(-1, 100), rapid.SampledFrom([]int32{math.MinInt32, 1 << 20, math.MaxInt32})).Draw(t, "n")
		u := rapid.Float64Range(0, math.Nextafter(1, 0)).Draw(t, "u")
		if d := Backoff(spec, n, u); d < 0 || d > spec.Max() {
			t.Fatalf("pause %s, maximum %s", d, spec.Max())
		}
	})
}

func TestBackoff(t *testing.T) {
	const huge = math.MaxInt32
	tests := map[string]struct {
		spec v1alpha1.BackoffSpec
		n    int32
		u    float64
		want time.Duration
	}{
		"first, full":                     {n: 1, u: 0.5, want: 500 * time.Millisecond},
		"third, full":                     {n: 3, u: 0.5, want: 2 * time.Second},
		"full may be zero":                {n: 3, u: 0, want: 0},
		"full at the limit":               {n: huge, u: 0.5, want: 150 * time.Second},
		"unset is full":                   {spec: v1alpha1.BackoffSpec{Jitter: v1alpha1.JitterFull}, n: 3, u: 0.5, want: 2 * time.Second},
		"equal is half and up to as much": {spec: v1alpha1.BackoffSpec{Jitter: v1alpha1.JitterEqual}, n: 3, u: 0.5, want: 3 * time.Second},
		"equal is never below half":       {spec: v1alpha1.BackoffSpec{Jitter: v1alpha1.JitterEqual}, n: huge, u: 0, want: 150 * time.Second},
		"none is the bound":               {spec: v1alpha1.BackoffSpec{Jitter: v1alpha1.JitterNone}, n: 4, u: 0.1, want: 8 * time.Second},
		"none at the limit":               {spec: v1alpha1.BackoffSpec{Jitter: v1alpha1.JitterNone}, n: huge, u: 0.1, want: 300 * time.Second},
		"factor one is constant":          {spec: v1alpha1.BackoffSpec{Jitter: v1alpha1.JitterNone, Factor: 1, InitialSeconds: 7}, n: huge, want: 7 * time.Second},
		"no attempt counts as the first":  {spec: v1alpha1.BackoffSpec{Jitter: v1alpha1.JitterNone}, n: 0, want: time.Second},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Backoff(&test.spec, test.n, test.u); got != test.want {
				t.Errorf("pause %s, want %s", got, test.want)
			}
		})
	}
}

// TestCase27FullJitterStaysJitter: far out, full jitter is uniform over the whole pause. An overflow would make it zero or constant.
func TestCase27FullJitterStaysJitter(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	spec := &v1alpha1.BackoffSpec{}
	const samples = 200
	var sum, low, high time.Duration
	low = spec.Max()
	for range samples {
		d := Backoff(spec, 1_000_000, random.Float64())
		sum, low, high = sum+d, min(low, d), max(high, d)
	}
	mean, want := sum/samples, spec.Max()/2
	if off := (mean - want).Abs(); off > want/5 { // five standard errors
		t.Errorf("mean %s, want about %s", mean, want)
	}
	if low > spec.Max()/10 || high < spec.Max()*9/10 {
		t.Errorf("pauses from %s to %s, maximum %s", low, high, spec.Max())
	}
}
