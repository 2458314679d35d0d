package figure

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFiguresAreDrawnWithTheirNames(t *testing.T) {
	for name, draw := range map[string]func(file, title, x, y string, series ...Series) error{"lines": Lines, "dots": Dots} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "a.svg")
			points := []Point{{0, 1}, {1, 3}, {2, 2}}
			if err := draw(file, "Tasks", "seconds", "tasks a second", Series{"offered", points}, Series{Name: "nothing"}); err != nil {
				t.Fatal(err)
			}
			drawn, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{"<svg", "Tasks", "seconds", "offered"} {
				if !strings.Contains(string(drawn), want) {
					t.Errorf("the figure does not contain %q", want)
				}
			}
			if strings.Contains(string(drawn), "nothing") {
				t.Error("a series without points is in the legend")
			}
		})
	}
}
