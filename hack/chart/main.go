// Chart keeps charts/leasehold and config/ the same:
//
//	go run ./hack/chart generate                 # writes the templates that need no values
//	go run ./hack/chart compare HELM KUSTOMIZE   # compares what `helm template` and `kustomize build` printed
//
// The Deployment and the epoch take values and are written by hand; compare is what keeps them honest.
package main

import (
	"fmt"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "chart: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 1 && args[0] == "generate":
		return generate("config", "charts/leasehold/templates")
	case len(args) == 3 && args[0] == "compare":
		return compareFiles(args[1], args[2])
	default:
		return fmt.Errorf("usage: chart generate | compare HELM KUSTOMIZE")
	}
}
