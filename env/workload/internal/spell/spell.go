// Package spell finds the word that somebody probably meant.
package spell

import "slices"

// longest bounds what is compared of a word, in bytes.
const longest = 64

// Closest is the candidate with the smallest edit distance to word, the first of equals; "" if there is none.
func Closest(word string, candidates []string) string {
	if len(candidates) == 0 {
		return ""
	}
	return slices.MinFunc(candidates, func(a, b string) int { return distance(word, a) - distance(word, b) })
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
