// Package archive writes container images without a builder or a registry.
//
// An image is one layer on an empty base, in the `docker save` format that `ctr images import`, `docker load` and
// `podman load` read. The same [Spec] always gives the same bytes: entries are sorted, every timestamp is the Unix epoch,
// and owners come from the Spec, never from the machine that builds.
//
//	err := archive.Write("manager.tar", archive.Spec{
//		Tag:        "leasehold/manager:dev",
//		Entries:    []archive.Entry{archive.File("/manager", 0o755, binary)},
//		Entrypoint: []string{"/manager"},
//		User:       "65532",
//	})
//
// Use static binaries (CGO_ENABLED=0): the base is empty, so there is no dynamic loader and no libc.
package archive
