//go:build !deliberatebugs

package bug

// Is reports whether the program was built with the named mistake: never, in this build.
func Is(Name) bool { return false }
