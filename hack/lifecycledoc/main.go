// Lifecycledoc writes docs/lifecycle.md from the code that decides: the table of transitions, and the constants that name
// phases, rules and reasons, with their comments. `go generate ./internal/controller/plan` runs it:
//
//	go run ./hack/lifecycledoc -root . -out docs/lifecycle.md
package main

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/leasehold-io/leasehold/internal/controller/plan"
)

func main() {
	root := flag.String("root", ".", "directory of go.mod")
	out := flag.String("out", "docs/lifecycle.md", "file to write")
	flag.Parse()
	page, err := render(*root)
	if err == nil {
		err = os.WriteFile(*out, page, 0o644)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "lifecycledoc: %v\n", err)
		os.Exit(1)
	}
}

// list is one list of constants and where it is declared.
type list struct {
	file   string
	prefix string // of the constants' names
}

var (
	phases   = list{"api/v1alpha1/leasedtask_status.go", "Phase"}
	rules    = list{"internal/controller/plan/rules.go", "Rule"}
	given    = list{"internal/controller/plan/end.go", "Reason"}
	byAgent  = list{"internal/fencing/submission.go", "Reason"}
	waiting  = list{"api/v1alpha1/conditions.go", "Waiting"}
	outcomes = list{"api/v1alpha1/leasedtask_status.go", "Attempt"}
)

const intro = `# The lifecycle of a task

Generated from the code by ` + "`make generate`" + `; do not edit.

A phase is the controller's record of what happened on the task's Lease. Wait on conditions, not on phases: ` + "`kubectl wait --for=condition=Finished`" + `.
The API server refuses every other change of phase, whoever asks: the table below is also a validation rule of the CRD.

`

const reasons = `
## How an attempt ends

Each attempt that has ended has one entry in ` + "`status.history`" + `. Its outcome says which budget it is charged to, its evidence what the
record rests on: the agent's own word (Submission), the kubelet's (Pod), that no renewal was seen (Observation), or what stands on the
Lease of one of the task's keys (Key): then there was no attempt. [reasons.md](reasons.md) says what helps.
`

const fromOutside = `
A worker told to stop, and a Pod that ends from outside, carry the Pod's own word where it has one: ` + "`Evicted`" + `, or the reason of its
condition ` + "`DisruptionTarget`" + `, such as ` + "`PreemptionByScheduler`, `EvictionByEvictionAPI`, `DeletionByTaintManager`, `DeletionByPodGC` or `TerminationByKubelet`" + `.
`

// render makes the page. It is the same for the same code.
func render(root string) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString(intro)
	transitions(&out)
	sections := []struct {
		before, title, head string
		list                list
	}{
		{"", "\n## Phases\n", "phase", phases},
		{"", "\n## Rules\n\nThe controller asks these in order; the first that applies decides. `leasehold_decisions_total` counts them by name.\n", "rule", rules},
		{reasons, "", "outcome", outcomes},
		{"", "\nReasons that the controller gives:\n", "reason", given},
		{"", "\nReasons that an agent submits, or that its submission is refused for:\n", "reason", byAgent},
		{fromOutside, "\n## What a task waits for\n\nReasons of the condition `Waiting` while it is True.\n", "reason", waiting},
	}
	for _, s := range sections {
		constants, err := s.list.read(root)
		if err != nil {
			return nil, err
		}
		out.WriteString(s.before + s.title)
		fmt.Fprintf(&out, "\n| %s | |\n|---|---|\n", s.head)
		for _, c := range constants {
			fmt.Fprintf(&out, "| `%s` | %s |\n", c.value, cell(c.comment))
		}
	}
	return out.Bytes(), nil
}

// transitions writes the diagram and the table.
func transitions(out *bytes.Buffer) {
	out.WriteString("```mermaid\nstateDiagram-v2\n")
	for _, t := range plan.Transitions {
		fmt.Fprintf(out, "    %s --> %s\n", state(string(t.From)), t.To)
	}
	for _, t := range plan.Transitions {
		if t.To.IsFinished() && isFirst(t) {
			fmt.Fprintf(out, "    %s --> [*]\n", t.To)
		}
	}
	out.WriteString("```\n\n| from | to | when |\n|---|---|---|\n")
	for _, t := range plan.Transitions {
		from := string(t.From)
		if from == "" {
			from = "(new)"
		}
		fmt.Fprintf(out, "| %s | %s | %s |\n", from, t.To, cell(t.When))
	}
}

// isFirst reports whether no transition before this one leads to its phase.
func isFirst(t plan.Transition) bool {
	for _, other := range plan.Transitions {
		if other.To == t.To {
			return other == t
		}
	}
	return false
}

func state(phase string) string {
	if phase == "" {
		return "[*]"
	}
	return phase
}

type constant struct{ value, comment string }

// read finds the string constants of a list, in the order of their declaration. Each must have a comment.
func (l list) read(root string) ([]constant, error) {
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, l.file), nil, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	var found []constant
	for _, decl := range file.Decls {
		block, ok := decl.(*ast.GenDecl)
		if !ok || block.Tok != token.CONST {
			continue
		}
		for _, spec := range block.Specs {
			c, isListed, err := l.constant(spec.(*ast.ValueSpec))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", l.file, err)
			}
			if isListed {
				found = append(found, c)
			}
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s has no constants %s", l.file, l.prefix)
	}
	return found, nil
}

func (l list) constant(spec *ast.ValueSpec) (constant, bool, error) {
	name := spec.Names[0].Name
	if !strings.HasPrefix(name, l.prefix) || len(spec.Values) != 1 {
		return constant{}, false, nil
	}
	literal, ok := spec.Values[0].(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return constant{}, false, nil
	}
	value, err := strconv.Unquote(literal.Value)
	if err != nil {
		return constant{}, false, err
	}
	comment := spec.Comment.Text()
	if comment == "" {
		comment = strings.TrimPrefix(spec.Doc.Text(), name+": ")
	}
	if comment == "" {
		return constant{}, false, fmt.Errorf("constant %s has no comment", name)
	}
	return constant{value, comment}, true, nil
}

// cell is text for one cell of a table.
func cell(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
}
