// The functions that Python calls. A forked child has inherited a Go runtime without its threads: the first
// collection there would wait for ever, so each function refuses before it enters Go.
#include "_cgo_export.h"
#include <pthread.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default"))) int32_t
#define FORKED -100

static volatile int forked;
static void in_child(void) { forked = 1; }
__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(0, 0, in_child); }

static int32_t refuse(gg_reply *reply) {
	static const char text[] = "this belongs to the process before the fork: make a new one in the child";
	size_t n = sizeof text - 1;
	reply->len = n < reply->cap ? n : reply->cap;
	reply->ticket = 0;
	memcpy(reply->data, text, reply->len);
	return FORKED;
}

#define GUARD                                                                                                          \
	if (__builtin_expect(forked, 0))                                                                               \
	return refuse(reply)

EXPORT gg_version(gg_reply *reply) {
	GUARD;
	return goggVersion(reply);
}
EXPORT gg_fetch(uint64_t ticket, gg_reply *reply) {
	GUARD;
	return goggFetch(ticket, reply);
}
EXPORT gg_call(const char *method, size_t method_len, const void *req, size_t req_len, uint64_t token,
	       gg_reply *reply) {
	GUARD;
	return goggCall((char *)method, method_len, (void *)req, req_len, token, reply);
}
EXPORT gg_cancel(uint64_t token, gg_reply *reply) {
	GUARD;
	return goggCancel(token, reply);
}
EXPORT gg_open(const void *req, size_t req_len, int64_t *handle, gg_reply *reply) {
	GUARD;
	return goggOpen((void *)req, req_len, handle, reply);
}
EXPORT gg_bind(int64_t handle, void *const *buffers, const size_t *sizes, size_t n, gg_reply *reply) {
	GUARD;
	return goggBind(handle, (void **)buffers, (size_t *)sizes, n, reply);
}
EXPORT gg_reset(int64_t handle, const void *req, size_t req_len, gg_reply *reply) {
	GUARD;
	return goggReset(handle, (void *)req, req_len, reply);
}
EXPORT gg_step(int64_t handle, gg_reply *reply) {
	GUARD;
	return goggStep(handle, reply);
}
EXPORT gg_resume(int64_t handle, gg_reply *reply) {
	GUARD;
	return goggResume(handle, reply);
}
EXPORT gg_info(int64_t handle, gg_reply *reply) {
	GUARD;
	return goggInfo(handle, reply);
}
EXPORT gg_close(int64_t handle, gg_reply *reply) {
	GUARD;
	return goggClose(handle, reply);
}
EXPORT gg_model_open(const void *model, size_t model_len, int64_t *handle, gg_reply *reply) {
	GUARD;
	return goggModelOpen((void *)model, model_len, handle, reply);
}
EXPORT gg_model_score(int64_t handle, const float *rows, size_t rows_len, float *out, size_t out_len, size_t n,
		      gg_reply *reply) {
	GUARD;
	return goggModelScore(handle, (float *)rows, rows_len, out, out_len, n, reply);
}
