package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// quiet is for how long the screen may say nothing while something long goes on.
const quiet = 40 * time.Second

// quoted is how many lines of an error the screen shows.
const quoted = 5

// passedOn are the beginnings of the lines that the tools print and that the screen shows too: progress of the long first part.
var passedOn = []string{"Building ", "Still building ", "Built ", "Waiting for another ", "Installing Debian packages", "The cluster is up"}

// narrator tells on the screen what happens, and keeps the details in the log.
type narrator struct {
	mu     sync.Mutex
	screen io.Writer
	log    io.Writer
	begun  time.Time // of the story that is being told
	spoke  time.Time
}

func newNarrator(screen, log io.Writer) *narrator {
	return &narrator{screen: screen, log: log, begun: time.Now(), spoke: time.Now()}
}

// sayf prints a line.
func (n *narrator) sayf(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.print(fmt.Sprintf(format, args...))
}

func (n *narrator) print(line string) {
	n.spoke = time.Now()
	_, _ = fmt.Fprintln(n.screen, line)
	_, _ = fmt.Fprintln(n.log, line)
}

// begin starts a story; its lines show the seconds since then.
func (n *narrator) begin(title string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.print("\n" + title)
	n.begun = time.Now()
}

// tellf prints a line of the story.
func (n *narrator) tellf(format string, args ...any) {
	n.sayf("%5.1fs  %s", time.Since(n.begun).Seconds(), fmt.Sprintf(format, args...))
}

// step does something long, and says so again and again.
func (n *narrator) step(what string, do func() error) error {
	start, done := time.Now(), make(chan struct{})
	n.tellf("%s ...", what)
	go func() {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				n.stillAt(what)
			}
		}
	}()
	err := do()
	close(done)
	if err == nil {
		n.tellf("%s: ready, after %s", what, time.Since(start).Round(100*time.Millisecond))
	}
	return err
}

func (n *narrator) stillAt(what string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if time.Since(n.spoke) > quiet {
		n.print(fmt.Sprintf("%5.0fs  %s: still at it", time.Since(n.begun).Seconds(), what))
	}
}

// failed reports the end of a demo that did not go as it should. An error may quote all that a tool has printed.
func (n *narrator) failed(err error) {
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	if len(lines) > quoted {
		_, _ = fmt.Fprintln(n.log, err)
		lines = append([]string{lines[0], "..."}, lines[len(lines)-quoted+1:]...)
	}
	n.sayf("\ndemo failed: %s\nDetails: %s", strings.Join(lines, "\n"), logFile)
}

// details is where tools print to: the log, with the lines of progress on the screen too.
func (n *narrator) details() io.Writer { return &details{narrator: n} }

type details struct {
	*narrator
	rest []byte
}

// Write keeps what is not yet a whole line.
func (d *details) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rest = append(d.rest, p...)
	for {
		line, rest, isWhole := bytes.Cut(d.rest, []byte("\n"))
		if !isWhole {
			return len(p), nil
		}
		d.rest = rest
		d.line(string(line))
	}
}

func (d *details) line(line string) {
	for _, prefix := range passedOn {
		if strings.HasPrefix(line, prefix) {
			d.print("        " + line)
			return
		}
	}
	_, _ = fmt.Fprintln(d.log, line)
}
