// Package spell finds the name that somebody probably meant.
package spell

import "fmt"

// longest bounds what is compared of a name, in bytes: names come from files, too.
const longest = 64

// Hint is what an error about an unknown name ends in: a suggestion, or nothing where no choice is near.
func Hint(name string, choices []string) string {
	if c := Closest(name, choices); c != "" {
		return fmt.Sprintf("; did you mean %q?", c)
	}
	return ""
}

// Closest is the choice that a name was probably meant to be, the first of equals; "" where none is near.
func Closest(name string, choices []string) (closest string) {
	best := 1 + min(len(name), longest)/3 // edits that a slip of the fingers may take
	for _, c := range choices {
		if d := distance(name, c); d <= best {
			best, closest = d-1, c
		}
	}
	return closest
}

// distance counts insertions, deletions and substitutions of bytes (Levenshtein).
func distance(a, b string) int {
	a, b = a[:min(len(a), longest)], b[:min(len(b), longest)]
	var row [longest + 1]int
	for j := range len(b) + 1 {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
