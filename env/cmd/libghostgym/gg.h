// The types that the C functions and their Go bodies share.
#ifndef GG_H
#define GG_H
#include <stddef.h>
#include <stdint.h>

// gg_reply is where a function puts its result (code 0) or its UTF-8 error message (code below 0).
// Code 1 is of gg_reset, gg_step and gg_resume: simulated time is still passing, and gg_resume goes on. So no call lasts long.
typedef struct {
	void *data;      // the caller's buffer
	size_t cap;      // its size in bytes
	size_t len;      // out: the reply's size
	uint64_t ticket; // out: not 0 where len > cap; gg_fetch then hands the reply out, once
} gg_reply;
#endif
