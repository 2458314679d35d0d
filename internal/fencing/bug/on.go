//go:build deliberatebugs

package bug

import (
	"os"
	"slices"
)

var chosen = func() Name {
	name := Name(os.Getenv("LEASEHOLD_BUG"))
	if name != "" && !slices.Contains(All(), name) {
		panic("LEASEHOLD_BUG names no deliberate bug: " + name)
	}
	return name
}()

// Is reports whether the named mistake was chosen.
func Is(name Name) bool { return chosen == name }
