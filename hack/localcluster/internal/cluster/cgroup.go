package cluster

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const cgroupRoot = "/sys/fs/cgroup"

func cgroupOf(containerID string) string { return filepath.Join(cgroupParent, containerID) }

// cgroups lists those of all containers, by the directories that the nodes' containerds keep: it does not need them to run.
func (l Layout) cgroups() []string {
	var all []string
	for _, n := range l.Nodes {
		entries, err := os.ReadDir(n.bundles())
		if err != nil {
			continue // the node has had no container
		}
		for _, entry := range entries {
			all = append(all, cgroupOf(entry.Name()))
		}
	}
	return all
}

// cgroupDirs is where a cgroup is in the file system: one directory with cgroup v2, one for each hierarchy with v1.
func cgroupDirs(cgroup string) []string {
	candidates := []string{filepath.Join(cgroupRoot, cgroup)}
	if hierarchies, err := filepath.Glob(filepath.Join(cgroupRoot, "*", cgroup)); err == nil {
		candidates = append(candidates, hierarchies...)
	}
	var dirs []string
	for _, dir := range candidates {
		if isFile(filepath.Join(dir, "cgroup.procs")) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// cgroupPIDs lists the processes of a cgroup and of those below it.
func cgroupPIDs(cgroup string) []int {
	var pids []int
	for _, dir := range cgroupDirs(cgroup) {
		_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.IsDir() {
				return nil // a cgroup that is removed while we walk has no processes
			}
			content, _ := os.ReadFile(filepath.Join(path, "cgroup.procs"))
			for field := range bytes.FieldsSeq(content) {
				if pid, err := strconv.Atoi(string(field)); err == nil && pid > 1 {
					pids = append(pids, pid)
				}
			}
			return nil
		})
	}
	slices.Sort(pids)
	return slices.Compact(pids)
}

// isInCgroup tells whether a process belongs to a cgroup or to one below it, in any hierarchy.
func isInCgroup(pid int, cgroup string) bool {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	return err == nil && cgroupFileNames(string(content), cgroup)
}

func cgroupFileNames(content, cgroup string) bool {
	for line := range strings.Lines(content) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) == 3 && (parts[2] == cgroup || strings.HasPrefix(parts[2], cgroup+"/")) {
			return true
		}
	}
	return false
}

// removeCgroups removes empty cgroups of containers, and their parent when it has no others.
func removeCgroups(cgroups []string) error {
	for _, cgroup := range cgroups {
		for _, root := range cgroupDirs(cgroup) {
			if err := removeTree(root); err != nil {
				return fmt.Errorf("remove cgroup: %w", err)
			}
		}
	}
	for _, dir := range cgroupDirs(cgroupParent) {
		_ = os.Remove(dir)
	}
	return nil
}

// removeTree removes a cgroup and those below it, deepest first. Only directories can be removed in this file system.
func removeTree(root string) error {
	var dirs []string
	_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			dirs = append(dirs, path)
		}
		return nil
	})
	slices.Reverse(dirs)
	for _, dir := range dirs {
		if err := os.Remove(dir); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}
