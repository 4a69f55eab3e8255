package env

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// ErrConfig is matched by errors about what was asked for.
var ErrConfig = errors.New("configuration")

type configError struct{ err error }

func (e *configError) Error() string   { return e.err.Error() }
func (e *configError) Unwrap() []error { return []error{ErrConfig, e.err} }

func badConfig(format string, args ...any) error { return &configError{fmt.Errorf(format, args...)} }

// AsConfig says that an error is about what was asked for; nil stays nil.
func AsConfig(err error) error {
	if err == nil {
		return nil
	}
	return &configError{err}
}

// PanicError is a panic as an error, with the stack of the goroutine that it ended.
func PanicError(p any) error {
	return fmt.Errorf("internal error, please report it: %v\n%s", p, debug.Stack())
}
