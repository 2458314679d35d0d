package s3_test

import (
	"context"
	"fmt"
	"os"

	"github.com/leasehold-io/leasehold/worker/guard"
	"github.com/leasehold-io/leasehold/worker/guard/s3"
)

func ExampleGuard_Put() {
	ctx := context.Background()
	store, err := client(ctx, os.Getenv("S3_ENDPOINT")) // an *s3.Client of the AWS SDK, as you configure it
	if err != nil {
		panic(err)
	}
	fenced := s3.New(store, "guarded")
	// A large report was uploaded before, under a name that no other attempt uses. The guarded object says which report counts.
	publish := func(token guard.Token) error {
		return fenced.Put(ctx, "reports/2026-11/current", token, fmt.Appendf(nil, "reports/2026-11/%d.parquet", token))
	}
	fmt.Println(publish(7))
	fmt.Println(publish(5)) // an attempt that was frozen, and wakes late
	current, err := fenced.Get(ctx, "reports/2026-11/current")
	fmt.Println(string(current.Body), err)
	// Output:
	// <nil>
	// stale: token 5 may not write to "reports/2026-11/current", which has seen token 7
	// reports/2026-11/7.parquet <nil>
}
