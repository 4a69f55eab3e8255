// Package layers holds the test that keeps imports pointing down.
package layers
