// Package storm runs many tasks on a real cluster while it hurts whatever it can reach, at random, and then lets the checker judge.
//
// Two things go on at once. Tasks are started so that a fixed number is in flight, with work of 5 to 40 s and in every mode of the
// worker. Faults of the catalogue in faults.go begin every few seconds, each on a target that no other fault holds, and are
// undone when their time is over, whatever happens. What kinds, when and for how long comes from the seed; whom they hit
// depends on what runs. When the time is over, everything is put back, all tasks must end, and the evidence is collected.
package storm
