// Command libghostgym is the C-shared library that Python loads: argument checking and nothing else.
//
// Every function (shim.c lists them) takes a gg_reply as its last argument and returns a code: 0, or below 0 the
// class of an error whose message is the reply. Requests and replies are msgpack. Objects are integers, never
// addresses, and one goroutine at a time may use one; memory that Go keeps between calls is the memory that
// gg_bind was given, which the caller must keep alive until the object is closed. No panic leaves a function.
package main

/*
#include "gg.h"
*/
import "C"

import (
	"unsafe"
)

// version is set by the linker, from python/ghostgym/__init__.py.
var version = "devel"

func main() {}

// respond copies a result, or the error's message, into the caller's buffer; what does not fit waits under a ticket.
func respond(r *C.gg_reply, body []byte, err error) C.int32_t {
	code := codeOf(err)
	if err != nil {
		body = []byte(err.Error())
	}
	r.len, r.ticket = C.size_t(len(body)), 0
	if len(body) > int(r.cap) {
		r.ticket = C.uint64_t(kept.put(body))
	} else {
		copy(view((*byte)(r.data), r.cap), body)
	}
	return C.int32_t(code)
}

// view is the caller's memory as a slice, for the length of the call unless said otherwise.
func view[T any](p *T, n C.size_t) []T {
	if p == nil || n == 0 {
		return nil
	}
	return unsafe.Slice(p, int(n))
}

// owned is a copy of a request: what is decoded from it may refer to it after the call.
func owned(p unsafe.Pointer, n C.size_t) []byte {
	return append([]byte(nil), view((*byte)(p), n)...)
}

//export goggVersion
func goggVersion(r *C.gg_reply) C.int32_t {
	return respond(r, []byte(version+"+"+product.schema()), nil)
}

//export goggFetch
func goggFetch(ticket C.uint64_t, r *C.gg_reply) C.int32_t {
	body, err := kept.take(uint64(ticket), int(r.cap))
	return respond(r, body, err)
}

//export goggCall
func goggCall(method *C.char, methodLen C.size_t, req unsafe.Pointer, reqLen C.size_t, token C.uint64_t, r *C.gg_reply) C.int32_t {
	body, err := product.do(string(owned(unsafe.Pointer(method), methodLen)), owned(req, reqLen), uint64(token))
	return respond(r, body, err)
}

//export goggCancel
func goggCancel(token C.uint64_t, r *C.gg_reply) C.int32_t {
	running.cancel(uint64(token))
	return respond(r, nil, nil)
}

//export goggOpen
func goggOpen(req unsafe.Pointer, reqLen C.size_t, handle *C.int64_t, r *C.gg_reply) C.int32_t {
	h, body, err := product.openVector(owned(req, reqLen))
	*handle = C.int64_t(h)
	return respond(r, body, err)
}

//export goggBind
func goggBind(handle C.int64_t, buffers *unsafe.Pointer, sizes *C.size_t, n C.size_t, r *C.gg_reply) C.int32_t {
	lengths := view(sizes, n)
	memory := make([][]byte, len(lengths))
	for i, p := range view(buffers, n) {
		memory[i] = view((*byte)(p), lengths[i]) // kept by the vector until it is closed
	}
	return respond(r, nil, bind(int64(handle), memory))
}

//export goggReset
func goggReset(handle C.int64_t, req unsafe.Pointer, reqLen C.size_t, r *C.gg_reply) C.int32_t {
	body, err := reset(int64(handle), owned(req, reqLen))
	return respond(r, body, err)
}

//export goggStep
func goggStep(handle C.int64_t, r *C.gg_reply) C.int32_t {
	if err := step(int64(handle)); err != nil {
		return respond(r, nil, err)
	}
	return 0
}

//export goggResume
func goggResume(handle C.int64_t, r *C.gg_reply) C.int32_t {
	return respond(r, nil, resume(int64(handle)))
}

//export goggInfo
func goggInfo(handle C.int64_t, r *C.gg_reply) C.int32_t {
	body, err := info(int64(handle))
	return respond(r, body, err)
}

//export goggClose
func goggClose(handle C.int64_t, r *C.gg_reply) C.int32_t {
	return respond(r, nil, objects.close(int64(handle)))
}

//export goggModelOpen
func goggModelOpen(model unsafe.Pointer, modelLen C.size_t, handle *C.int64_t, r *C.gg_reply) C.int32_t {
	h, body, err := product.openModel(owned(model, modelLen))
	*handle = C.int64_t(h)
	return respond(r, body, err)
}

//export goggModelScore
func goggModelScore(handle C.int64_t, rows *C.float, rowsLen C.size_t, out *C.float, outLen, n C.size_t, r *C.gg_reply) C.int32_t {
	in := view((*float32)(rows), rowsLen)
	if err := score(int64(handle), in, int(n), view((*float32)(out), outLen)); err != nil {
		return respond(r, nil, err)
	}
	return 0
}
