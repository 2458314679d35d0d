// Package kstatus asks the library that kubectl, Flux, Argo CD and Helm's --wait go by, for the tests that say what it is to answer.
package kstatus
