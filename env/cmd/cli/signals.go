package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Signals is a context that SIGINT, SIGTERM and SIGHUP cancel, for work that then stops cleanly. Only the first signal is taken: a
// second one ends the program, as the first does before Signals and after stop, so that nothing that waits for ever, as for the
// other end of a pipe, has to be killed. SIGHUP stays ignored under nohup.
func Signals(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(parent)
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(heard, syscall.SIGHUP)
	}
	go func() {
		select {
		case <-heard:
			signal.Stop(heard) // before anybody can know of the first
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(heard)
		cancel()
	}
}
