package models

import (
	_ "embed"
	"fmt"
)

//go:embed priority.onnx
var priority []byte

// Default is the model that comes with the program: priority.onnx, described by priority.md. It is there so that an operator has
// something to run before any training.
func Default() (*Model, error) {
	m, err := Load(priority)
	if err != nil {
		return nil, fmt.Errorf("built-in model: %w", err)
	}
	m.name = "priority.onnx (built in)"
	return m, nil
}
