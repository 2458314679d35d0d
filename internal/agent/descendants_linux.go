package agent

import (
	"bytes"
	"os"
	"strconv"
)

// descendants lists the processes below root, parents first. What is born while it looks is missed; who kills looks again.
func descendants(root int) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	children := map[int][]int{}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if stat, err := os.ReadFile("/proc/" + entry.Name() + "/stat"); err == nil {
			if parent, ok := parentOf(stat); ok {
				children[parent] = append(children[parent], pid)
			}
		}
	}
	var found []int
	for next := children[root]; len(next) > 0; next = next[1:] {
		found = append(found, next[0])
		next = append(next, children[next[0]]...)
	}
	return found
}

// parentOf reads the parent from a line of /proc/<pid>/stat: "pid (name) state parent ...". The name may hold anything,
// brackets too.
func parentOf(stat []byte) (int, bool) {
	at := bytes.LastIndexByte(stat, ')')
	if at < 0 {
		return 0, false
	}
	fields := bytes.Fields(stat[at+1:])
	if len(fields) < 2 {
		return 0, false
	}
	parent, err := strconv.Atoi(string(fields[1]))
	return parent, err == nil
}
