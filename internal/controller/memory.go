package controller

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// memory is what this process remembers of each of many objects, until it is told to forget it. The zero value is empty.
type memory[T any] struct {
	mu sync.Mutex
	of map[types.NamespacedName]T
}

func (m *memory[T]) get(name types.NamespacedName) (what T, isKnown bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	what, isKnown = m.of[name]
	return what, isKnown
}

func (m *memory[T]) keep(name types.NamespacedName, what T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of == nil {
		m.of = map[types.NamespacedName]T{}
	}
	m.of[name] = what
}

func (m *memory[T]) forget(name types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of, name)
}
