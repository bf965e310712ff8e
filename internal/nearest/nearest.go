// Package nearest finds the known name that a mistyped one most likely means,
// for errors that should say it. It is pure and safe for concurrent use.
package nearest

import "strings"

// Of returns the candidate a typist most likely meant by name, or "" if
// none is close: at most a third of its letters, and at least one, may differ.
// Hyphens, underscores and case do not count.
func Of(name string, candidates []string) string {
	best, bestDistance := "", max(1, len(name)/3)+1
	for _, candidate := range candidates {
		if d := editDistance(fold(name), fold(candidate)); d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	return best
}

func fold(s string) string {
	return strings.ReplaceAll(strings.ToLower(s), "-", "_")
}

// maxNameLength bounds the work of editDistance on names from outside; longer
// ones resemble no key.
const maxNameLength = 64

// editDistance counts the insertions, deletions, replacements and swaps of
// neighbours that turn a into b.
func editDistance(a, b string) int {
	if len(a) > maxNameLength || len(b) > maxNameLength {
		return maxNameLength
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			replace := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			rows[i][j] = min(replace, rows[i-1][j]+1, rows[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
