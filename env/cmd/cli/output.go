package cli

import "io"

// Output is standard output, where a failure is remembered: printing goes on, and the exit code says that not all of it arrived.
type Output struct {
	io.Writer
	err error
}

// Write implements io.Writer.
func (o *Output) Write(b []byte) (int, error) {
	n, err := o.Writer.Write(b)
	if err != nil && o.err == nil {
		o.err = err
	}
	return n, err
}

// Exit is the exit code of a program that ended with code: a success is none if output was lost.
func (o *Output) Exit(stderr io.Writer, program string, code int) int {
	if code != 0 {
		return code
	}
	return Exit(stderr, program, o.err)
}
