// Package figure draws what benchmarks have measured, as SVG. It chooses sizes and colours once, so that figures look alike.
package figure

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// Size of a figure.
const (
	width  = 18 * vg.Centimeter
	height = 8 * vg.Centimeter
)

// Series is one kind of thing that was measured.
type Series struct {
	Name   string
	Points []Point
}

// Point is one measurement.
type Point struct{ X, Y float64 }

// Lines draws series as lines, Dots as dots.
func Lines(file, title, x, y string, series ...Series) error {
	return draw(file, title, x, y, series, func(points plotter.XYs, c color.Color) (plot.Plotter, plot.Thumbnailer, error) {
		line, err := plotter.NewLine(points)
		if err != nil {
			return nil, nil, err
		}
		line.Color, line.Width = c, vg.Points(1.5)
		return line, line, nil
	})
}

// Dots draws series as dots.
func Dots(file, title, x, y string, series ...Series) error {
	return draw(file, title, x, y, series, func(points plotter.XYs, c color.Color) (plot.Plotter, plot.Thumbnailer, error) {
		dots, err := plotter.NewScatter(points)
		if err != nil {
			return nil, nil, err
		}
		dots.Color, dots.Radius = c, vg.Points(1.5)
		return dots, dots, nil
	})
}

func draw(file, title, x, y string, series []Series, as func(plotter.XYs, color.Color) (plot.Plotter, plot.Thumbnailer, error)) error {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Y.Min = 0
	for _, style := range []*font.Font{&p.Title.TextStyle.Font, &p.X.Label.TextStyle.Font, &p.Y.Label.TextStyle.Font, &p.Legend.TextStyle.Font} {
		style.Variant = "Sans"
	}
	p.Legend.Top, p.Legend.Left = true, true // names go to the right of their colours, into free space, however wide a viewer's font is
	p.Add(plotter.NewGrid())
	for i, s := range series {
		if len(s.Points) == 0 {
			continue
		}
		points := make(plotter.XYs, len(s.Points))
		for j, point := range s.Points {
			points[j] = plotter.XY(point)
		}
		drawn, thumbnail, err := as(points, plotutil.Color(i))
		if err != nil {
			return err
		}
		p.Add(drawn)
		p.Legend.Add(s.Name, thumbnail)
	}
	p.Y.Min = 0
	p.Y.Max *= 1.25 // room for the legend
	return p.Save(width, height, file)
}
