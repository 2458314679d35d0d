// Command image packs static binaries as a container image archive, without a container builder.
//
//	CGO_ENABLED=0 go build -trimpath -o bin/manager ./cmd/manager
//	go run ./hack/image -o manager.tar -tag leasehold/manager:dev -bin bin/manager=/manager -entrypoint /manager -user 65532
//	ctr -n k8s.io images import manager.tar          # or: go run ./hack/localcluster load manager.tar
//
// The Dockerfile stays the way to build release images; this is for machines without a builder or a registry. See the
// package hack/image/archive for what is guaranteed about the bytes.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/leasehold-io/leasehold/hack/image/archive"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	var spec archive.Spec
	out := flags.String("o", "", "archive to write (required)")
	flags.StringVar(&spec.Tag, "tag", "", "image reference, for example leasehold/manager:dev (required)")
	flags.StringVar(&spec.User, "user", "", "numeric uid[:gid] (default root)")
	flags.StringVar(&spec.WorkingDir, "workdir", "", "working directory (default /)")
	list(flags, "entrypoint", "entrypoint, repeat for arguments", &spec.Entrypoint)
	list(flags, "cmd", "default arguments, repeatable", &spec.Cmd)
	list(flags, "env", "NAME=VALUE, repeatable", &spec.Env)
	entry(flags, "bin", "SOURCE=/path, an executable (0755), repeatable", &spec, fileFrom(0o755))
	entry(flags, "file", "SOURCE=/path, a plain file (0644), repeatable", &spec, fileFrom(0o644))
	entry(flags, "link", "TARGET=/path, a symbolic link at /path, repeatable", &spec, linkTo)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *out == "" || spec.Tag == "" || len(spec.Entries) == 0 || flags.NArg() > 0 {
		flags.Usage()
		return fmt.Errorf("-o, -tag and at least one of -bin, -file, -link are required, and nothing else is accepted")
	}
	return archive.Write(*out, spec)
}

func list(flags *flag.FlagSet, name, usage string, to *[]string) {
	flags.Func(name, usage, func(v string) error {
		*to = append(*to, v)
		return nil
	})
}

func entry(flags *flag.FlagSet, name, usage string, spec *archive.Spec, make func(from, at string) (archive.Entry, error)) {
	flags.Func(name, usage, func(v string) error {
		from, at, found := strings.Cut(v, "=")
		if !found {
			return fmt.Errorf("%q has no '='", v)
		}
		e, err := make(from, at)
		if err != nil {
			return err
		}
		spec.Entries = append(spec.Entries, e)
		return nil
	})
}

func fileFrom(mode int64) func(from, at string) (archive.Entry, error) {
	return func(from, at string) (archive.Entry, error) {
		content, err := os.ReadFile(from)
		if err != nil {
			return archive.Entry{}, err
		}
		return archive.File(at, mode, content), nil
	}
}

func linkTo(target, at string) (archive.Entry, error) {
	return archive.Symlink(at, target), nil
}
