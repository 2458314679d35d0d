package storm

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Markdown renders a result. command is how the run was started, machine what it ran on.
func (r *Result) Markdown(command string, machine []string) string {
	var b strings.Builder
	linef := func(format string, args ...any) { _, _ = fmt.Fprintf(&b, format+"\n", args...) }
	linef("# Random faults: %s\n", verdict(len(r.Violations)))
	linef("    %s\n", command)
	linef("%s, seed %d. Faults for %s, all tasks ended %s later.", r.Start.UTC().Format("2006-01-02 15:04 MST"), r.Seed,
		r.FaultsEnd.Sub(r.Start).Round(time.Second), r.End.Sub(r.FaultsEnd).Round(time.Second))
	linef("%s.\n", strings.Join(machine, ", "))

	linef("## Violations\n")
	if len(r.Violations) == 0 {
		linef("None.")
	}
	for _, v := range r.Violations {
		linef("- %s", v)
	}
	linef("\n## What the checker saw\n")
	table(linef, "seen", counted(r.Counts))
	linef("\n## Faults\n")
	linef("| fault | done | missed |\n|---|---|---|")
	all := Tally{}
	for _, kind := range slices.Sorted(maps.Keys(r.Faults)) {
		t := r.Faults[kind]
		linef("| %s | %d | %d |", kind, t.Done, t.Missed)
		all.Done, all.Missed = all.Done+t.Done, all.Missed+t.Missed
	}
	linef("| all | %d | %d |", all.Done, all.Missed)
	linef("\nMissed: the target had ended meanwhile, or the API server was stopped.")
	linef("\n## How attempts ended\n")
	linef("As the operator recorded it (the latest 20 of a task).\n")
	table(linef, "outcome and reason", r.attempts())
	return b.String()
}

func verdict(violations int) string {
	switch violations {
	case 0:
		return "no violation"
	case 1:
		return "1 violation"
	}
	return fmt.Sprintf("%d violations", violations)
}

type row struct {
	name  string
	count int64
}

func table(linef func(string, ...any), heading string, rows []row) {
	linef("| %s | |\n|---|---|", heading)
	for _, r := range rows {
		linef("| %s | %d |", r.name, r.count)
	}
}

// counted lists the fields of the checker's counts, in words.
func counted(counts any) (rows []row) {
	v := reflect.ValueOf(counts)
	for i := range v.NumField() {
		rows = append(rows, row{words(v.Type().Field(i).Name), v.Field(i).Int()})
	}
	return rows
}

// words takes a name apart: LostWithLease becomes "lost with lease".
func words(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

func (r *Result) attempts() (rows []row) {
	by := map[string]int64{}
	for i := range r.Tasks {
		for _, h := range r.Tasks[i].Status.History {
			by[string(h.Outcome)+" "+h.Reason]++
			if h.LateSubmission.Outcome != "" {
				by["(of these with a late submission on record)"]++
			}
		}
	}
	for name, count := range by {
		rows = append(rows, row{name, count})
	}
	slices.SortFunc(rows, func(a, b row) int { return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.name, b.name)) })
	return rows
}
