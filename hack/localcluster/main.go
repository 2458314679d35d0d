package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/leasehold-io/leasehold/hack/localcluster/internal/process"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == process.LauncherCommand {
		fail(process.RunLauncher(os.Stdin))
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	err := run(ctx, os.Args[1:])
	if errors.Is(err, errUsage) {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	if err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "localcluster:", err)
	os.Exit(1)
}
