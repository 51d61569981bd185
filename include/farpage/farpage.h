// Farpage in C: a client of memory nodes, which moves KV-cache pages between them and this
// process. docs/c-api.md takes a reader through it.
//
// Everything that may fail returns a farpage_code_t; farpage_last_error() then says in a sentence
// what is wrong. A null pointer where something must stand is FARPAGE_INVALID. Times are relative,
// in microseconds (UINT64_MAX: without end); lengths are in bytes. What a call takes is copied
// before it returns; memory of pages alone is lent, until the ticket is released.
//
// Threads: any thread may make any call on a farpage_t, a farpage_region_t or a
// farpage_completions_t, but for those that end them; one thread at a time uses a farpage_ticket_t.
// Handles belong to the process that made them: in its fork each call is FARPAGE_INVALID, and those
// that would end a handle leave its memory behind. The child opens a client of its own.
#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define FARPAGE_API __attribute__((visibility("default")))
#else
#define FARPAGE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum farpage_code {
  FARPAGE_OK = 0,
  FARPAGE_INVALID = 1,      // the caller's or the user's input is wrong
  FARPAGE_NOT_FOUND = 2,    // what was named does not exist
  FARPAGE_EXISTS = 3,       // what was to be made exists already
  FARPAGE_TIMEOUT = 4,      // the time was over first
  FARPAGE_UNAVAILABLE = 5,  // a node cannot be reached, or does not serve now
  FARPAGE_EXHAUSTED = 6,    // no memory, slot or descriptor is left, or no ticket is free
  FARPAGE_DENIED = 7,       // not permitted
  FARPAGE_ABORTED = 8,      // ended before it was done
  FARPAGE_PROTOCOL = 9,     // a node said something that it must not say
  FARPAGE_SYSTEM = 10,      // the operating system refused
  FARPAGE_BUSY = 12         // not now: an operation that is under way stands in the way
} farpage_code_t;

// Why a page must be recomputed.
typedef enum farpage_reason {
  FARPAGE_REASON_NONE = 0,
  FARPAGE_REASON_MISS = 1,         // no such page, or none of this length
  FARPAGE_REASON_STALE = 2,        // only versions below min_version
  FARPAGE_REASON_CORRUPT = 3,      // what arrived was wrong twice
  FARPAGE_REASON_STALLED = 4,      // not there in time
  FARPAGE_REASON_UNREACHABLE = 5,  // no node to ask
  FARPAGE_REASON_SLOWER = 6        // it would have come later than its recompute is done
} farpage_reason_t;

typedef enum farpage_verdict {
  FARPAGE_READY = 1,     // the memory holds, whole, the bytes that some put of the key committed
  FARPAGE_RECOMPUTE = 2  // it holds nothing that can be used; the reason says why
} farpage_verdict_t;

typedef struct farpage_client farpage_t;
typedef struct farpage_region farpage_region_t;
typedef struct farpage_fence farpage_fence_t;
typedef struct farpage_ticket farpage_ticket_t;
typedef struct farpage_completions farpage_completions_t;

// The name of a page: 16 bytes as farpage_key() makes them (docs/formats/slot.md).
typedef struct farpage_page_key {
  uint8_t bytes[16];
} farpage_key_t;

#define FARPAGE_NAMESPACE_BYTES 32

// What pages depend on: {"dtype", 5, "bf16", 4}. Any bytes, of which 1 to 4,096 are the name's and
// up to 4,096 the value's. It has these fields for ever.
typedef struct farpage_fact {
  const void* name;
  size_t name_bytes;
  const void* value;
  size_t value_bytes;
} farpage_fact_t;

// Any other struct that the caller fills begins with its size, so that programs and libraries of
// different ages understand each other. Fields that a program's header lacks have their default
// here; fields that this library lacks must be 0.

// A page to fetch or to put.
typedef struct farpage_page {
  size_t struct_size;  // sizeof(farpage_page_t), the same in all of an array
  farpage_key_t key;
  void* data;            // in registered memory; of a put only read
  uint64_t bytes;        // the page's length: no page of another length is found
  uint64_t min_version;  // of a fetch: nothing older will do; 0: whatever was put last
} farpage_page_t;

#define FARPAGE_PAGE_INIT \
  { sizeof(farpage_page_t), {{0}}, NULL, 0, 0 }

// Who is told that an operation is done, beside its ticket. Any of them may be given.
typedef struct farpage_notification {
  size_t struct_size;                  // sizeof(farpage_notification_t)
  farpage_completions_t* completions;  // gets the tag; or null
  uint64_t tag;
  // Called once, maybe before the call that submits has returned, on a thread that moves pages and
  // stands still meanwhile: it must be short, throw nothing, and not wait. Or null.
  void (*callback)(void* context);
  void* context;
  farpage_fence_t* fence;  // of a fetch alone: gets the verdicts, for work on a GPU; or null
} farpage_notification_t;

#define FARPAGE_NOTIFICATION_INIT \
  { sizeof(farpage_notification_t), NULL, 0, NULL, NULL, NULL }

// The engine's note on the token of a step: that it begins a step of reasoning, and its purpose.
typedef enum farpage_mark {
  FARPAGE_MARK_NONE = 0,
  FARPAGE_MARK_BEGINS = 1,
  FARPAGE_MARK_EXPLORES = 2,
  FARPAGE_MARK_VERIFIES = 3,
  FARPAGE_MARK_CONCLUDES = 4
} farpage_mark_t;

// That a decode has accessed a page in a step. Of what the engine does not measure, 0.
typedef struct farpage_access {
  size_t struct_size;  // sizeof(farpage_access_t), the same in all of an array
  farpage_key_t key;
  uint64_t step;      // of the decode
  uint32_t head;      // counted through all layers; one beyond ahead.heads is ignored
  uint32_t category;  // of the request, as the engine numbers them
  float mass;         // of the head's attention in this step, 0 to 1
  float score;        // how the engine ranks the page
  float similarity;   // the cosine between the step's query and the one before, -1 to 1
  float entropy;      // of the distribution that the step's token was drawn from, in nats
  float margin;       // between the logits of the two likeliest tokens
  uint32_t mark;      // a farpage_mark_t
} farpage_access_t;

#define FARPAGE_ACCESS_INIT \
  { sizeof(farpage_access_t), {{0}}, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

// Counts of a client, each as of a moment ago. The library fills as much of it as struct_size says;
// fields that it does not know are 0 afterwards.
typedef struct farpage_statistics {
  size_t struct_size;  // sizeof(farpage_statistics_t)
  // Pages that have their verdict so far, by verdict and reason: of farpage_fetch(), and of
  // farpage_exists() and farpage_leading() those that no index has answered.
  uint64_t ready;
  uint64_t ready_bytes;
  uint64_t miss;
  uint64_t stale;
  uint64_t corrupt;
  uint64_t stalled;
  uint64_t unreachable;
  uint64_t slower;
  uint64_t near_ready;     // of those that were ready: fetched ahead, before they were asked for
  uint64_t fetched_ahead;  // pages so far, asked for since or not
  uint64_t ahead_places;   // of ahead.pages, those in use now
  uint64_t puts_acknowledged;  // pages so far
  uint64_t puts_failed;
  uint64_t under_way;           // operations now that are not done
  uint64_t fetch_tickets_free;  // so many more fetches are not FARPAGE_EXHAUSTED now
  uint64_t put_tickets_free;    // ... and puts and removes
} farpage_statistics_t;

#define FARPAGE_STATISTICS_INIT \
  { sizeof(farpage_statistics_t), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

// Blocks of paged memory on a GPU. Block b lies there in pieces, in the order of a page's bytes (of
// layers, of keys and values): piece i at pieces[i] + b * block_stride.
typedef struct farpage_gpu_blocks {
  size_t struct_size;      // sizeof(farpage_gpu_blocks_t)
  const uint64_t* pieces;  // the device's addresses, of block 0
  size_t piece_count;      // 1 to 4,096
  uint64_t piece_bytes;    // each piece's
  uint64_t block_stride;   // from a piece to the same of the next block
  uint64_t blocks;         // how many there are
} farpage_gpu_blocks_t;

#define FARPAGE_GPU_BLOCKS_INIT \
  { sizeof(farpage_gpu_blocks_t), NULL, 0, 0, 0, 0 }

// What the library fills beyond these never changes its size: there is room for more in what is
// reserved.

typedef struct farpage_page_verdict {
  farpage_verdict_t verdict;
  farpage_reason_t reason;  // with FARPAGE_RECOMPUTE
  uint64_t version;         // with FARPAGE_READY
  uint64_t took_ns;         // nanoseconds since the fetch, or the question, began
  uint32_t held;  // 1: the page's memory may still be written, until the ticket is released
  uint32_t reserved[3];
} farpage_page_verdict_t;

typedef struct farpage_put_result {
  // FARPAGE_OK: every fetch that begins from now on finds this version or a newer one, until the
  // page is removed or evicted. FARPAGE_TIMEOUT: not acknowledged, stored or not.
  // FARPAGE_EXHAUSTED: no room became free in time. FARPAGE_UNAVAILABLE: its node cannot be
  // reached. FARPAGE_INVALID: longer than farpage_page_bytes(). FARPAGE_ABORTED: other bytes
  // arrived than were sent.
  farpage_code_t code;
  uint32_t reserved;
  uint64_t version;
  uint64_t reserved_2;
} farpage_put_result_t;

// ---- Names and errors: any thread, never null, nothing to free.

FARPAGE_API const char* farpage_version(void);  // of the library: "1.2.3"
FARPAGE_API const char* farpage_code_name(farpage_code_t code);
FARPAGE_API const char* farpage_reason_name(farpage_reason_t reason);
FARPAGE_API const char* farpage_verdict_name(farpage_verdict_t verdict);
// What was wrong with the last call of this thread that failed; "" if none has. Valid until the
// next one fails.
FARPAGE_API const char* farpage_last_error(void);

// ---- A client

// Brings up a client, its threads and, with client.embedded, a node inside this process. Blocks
// until a node has answered, up to client.connect_ms. `toml_text`: what a configuration file would
// hold. The caller ends the client with farpage_close().
// FARPAGE_INVALID: the options; FARPAGE_UNAVAILABLE, FARPAGE_TIMEOUT: no node answers;
// FARPAGE_DENIED: token or certificate.
FARPAGE_API farpage_code_t farpage_open(const char* toml_text, farpage_t** client);
// The same by the path of a file. FARPAGE_NOT_FOUND: there is none.
FARPAGE_API farpage_code_t farpage_open_file(const char* path, farpage_t** client);
// The same, with `count` keys that win over the file's: "table.key=value", each a string of C.
FARPAGE_API farpage_code_t farpage_open_overridden(const char* path, const char* const* overrides,
                                                   size_t count, farpage_t** client);
// Waits until every operation is released, ends the regions that are left, then takes everything
// down. Tickets stay valid, and are still to be freed; region handles are not. No other call on the
// client meanwhile or later. Null: nothing. FARPAGE_BUSY: from a callback, which cannot end it.
FARPAGE_API farpage_code_t farpage_close(farpage_t* client);

// The longest page that the nodes take; 0 is an error.
FARPAGE_API uint64_t farpage_page_bytes(const farpage_t* client);

// ---- Memory of pages

// Registers memory of the caller's, which stays mapped, and may be read and written as now, until
// farpage_unregister() has succeeded or the client is closed. Costs system calls: once for all
// pages in it. None of it is touched. Memory of which some may not be written is for puts alone: to
// fetch into it is FARPAGE_INVALID. Over shm a node of this user stores pages straight from memory
// that is a shared mapping of one file in /dev/shm, or of a memfd, if it is put from often.
// FARPAGE_INVALID: some of it is not mapped, or may not be read. FARPAGE_EXISTS: a part of it is
// registered with this client already.
FARPAGE_API farpage_code_t farpage_register(farpage_t* client, void* data, uint64_t bytes,
                                            farpage_region_t** region);
// Registers memory of a GPU for pages, by the device's address: allocated, or mapped piece by
// piece, under the device's primary context, as CUDA's runtime does. It stays so until
// farpage_unregister() has succeeded or the client is closed. `data` of a page in it is that
// address; all pages of a fetch or a put lie in one GPU's memory or all in the host's. A page that
// is FARPAGE_READY may be used by work that is put on any stream from then on. No work on the GPU
// may still use a page's memory when a fetch begins, or write it when a put begins
// (farpage_put_behind() waits for that work). The first region of each GPU makes a thread and takes
// pinned host memory: gpu.bounce_bytes for fetches, a fourth of that for puts, and some for its
// checks (docs/gpu.md). The calling thread's current context stays as it is.
// FARPAGE_NOT_FOUND, FARPAGE_UNAVAILABLE: no driver, an old one, no GPU. FARPAGE_INVALID: not whole
// and of one GPU. FARPAGE_EXISTS: as farpage_register(). FARPAGE_EXHAUSTED: no memory can be
// pinned, or node.max_lanes is reached.
FARPAGE_API farpage_code_t farpage_register_gpu(farpage_t* client, uint64_t address, uint64_t bytes,
                                                farpage_region_t** region);
// Registers blocks of paged memory on a GPU, as engines keep a KV cache. A page is one block. The
// region has addresses of its own, at which nothing lies: a page in block b has `bytes` =
// piece_count * piece_bytes, and `data` = farpage_region_address() + b * bytes. All pages of a
// fetch or a put are blocks of one region. The GPU checks a page before it writes it to its
// block, so the block of a page that is not FARPAGE_READY is as it was, except where a copy was
// late (`held`), or the driver refused one; docs/gpu.md says when it cannot check. Each region
// takes memory of the GPU for that: 16 times 256 KiB, or a block where that is longer. CUDA may
// make this call, and the region's end, wait for kernels that run: call neither while a stream
// waits at a fence.
// What farpage_register_gpu() says of the memory, of work on the GPU and of errors holds here too.
// Nothing else under way may use the same memory by another region.
// FARPAGE_INVALID: pieces overlap, or lie on several GPUs; a block is longer than the nodes' pages.
FARPAGE_API farpage_code_t farpage_register_gpu_blocks(farpage_t* client,
                                                       const farpage_gpu_blocks_t* blocks,
                                                       farpage_region_t** region);
// Where the region's pages begin: its own address, if it has blocks, and otherwise that of the
// memory that was registered. 0: an error.
FARPAGE_API uint64_t farpage_region_address(const farpage_region_t* region);
// Ends the registration and frees the handle. FARPAGE_BUSY: a ticket lends memory of it: wait until
// that is released, and try again; the region is as it was. Does not block, unless
// it has blocks. Null: nothing.
FARPAGE_API farpage_code_t farpage_unregister(farpage_region_t* region);

// ---- Fences: what streams of a GPU wait at for the verdicts of a fetch, and where kernels see
// them (fence.h). One fetch at a time, of the same client and with a timeout, has a fence, by its
// notification: another one with it is
// FARPAGE_INVALID. Its bits say that no page is ready from the call of a fetch until each page has
// its verdict, which is by its timeout; after a fetch that was refused; and once the client is
// closed, which a fence may outlive. A page that is not ready may be written as long as
// `held` says so: what computes it puts it elsewhere, or waits until the ticket is released.

// For fetches of at most so many pages, 1 to 16,777,216, and streams of this GPU: its number in
// CUDA. Takes some ms of the driver's time: make it before you need it. FARPAGE_NOT_FOUND: no
// driver, or an old one. FARPAGE_UNAVAILABLE: no such GPU, or its context has ended.
// FARPAGE_EXHAUSTED: no memory can be pinned.
FARPAGE_API farpage_code_t farpage_fence_new(farpage_t* client, int device, uint32_t most_pages,
                                             farpage_fence_t** fence);
// Puts a wait on a stream (a CUstream of the GPU's primary context; null: its default one): work
// that is put there from now on waits until every fetch that was begun with the fence has its
// verdicts. Nothing blocks. In a stream that is being captured, each replay of the graph waits for
// the fetches that were begun before it. FARPAGE_INVALID: that needs kernels that this build has
// not. FARPAGE_UNAVAILABLE: the driver refuses, mostly because the stream is of another context.
FARPAGE_API farpage_code_t farpage_fence_wait(farpage_fence_t* fence, void* stream);
// No page is ready from now on: for a graph that is replayed without a fetch. FARPAGE_BUSY: a fetch
// with the fence is under way.
FARPAGE_API farpage_code_t farpage_fence_clear(farpage_fence_t* fence);
// Of farpage_fence_words_t, for kernels of that GPU. 0: an error.
FARPAGE_API uint64_t farpage_fence_address(const farpage_fence_t* fence);
// Once no stream waits at it, and no work and no graph reads it any more. A fetch that is under way
// keeps its memory. Null: nothing.
FARPAGE_API void farpage_fence_free(farpage_fence_t* fence);

// ---- Keys: they need no client.

// The namespace of pages that depend on these facts: the same facts give the same 32 bytes in every
// process, machine and language, and other facts give others (docs/formats/keys.md). Their order
// does not count. FARPAGE_INVALID: there are none; a fact has no name, or more than 4,096 bytes in
// its name or value; two have the same name.
FARPAGE_API farpage_code_t farpage_namespace(const farpage_fact_t* facts, size_t count,
                                             uint8_t name_space[FARPAGE_NAMESPACE_BYTES]);
// The key of a page by the name that the engine has for it, any bytes, in a namespace:
// farpage_namespace() makes it, and any other bytes are one too.
FARPAGE_API farpage_code_t farpage_key(const void* name_space, size_t name_space_bytes,
                                       const void* name, size_t name_bytes, farpage_key_t* key);
// The same for `count` names of `name_bytes` each that lie one behind the other, such as the hashes
// that an engine has of its blocks. `keys` has room for `count`.
FARPAGE_API farpage_code_t farpage_keys(const void* name_space, size_t name_space_bytes,
                                        const void* names, size_t name_bytes, size_t count,
                                        farpage_key_t* keys);

// ---- Operations. They are submitted and go on by themselves: nothing here but farpage_leading()
// and farpage_flush() blocks. Each page has its verdict or result when `timeout_us` is over; 0
// gives what can be said at once. `notification` may be null. The caller frees the ticket; on an
// error there is none. FARPAGE_INVALID: the sentence names the index of the page that is wrong, or
// `count` is beyond 16,777,216; nothing was begun. FARPAGE_EXHAUSTED: free a ticket that is done.
// Each has a place until farpage_ticket_free(), done or not: client.lanes times client.queue_depth
// are for fetches and farpage_exists() together (with ahead.pages, queue_depth for fetches alone),
// queue_depth for puts and removes, and queue_depth for fetches and puts of each GPU's memory.
// farpage_leading() and farpage_flush() take one while they block.

// Fetches pages into their memory: farpage_ticket_verdicts(). FARPAGE_INVALID: two of them would
// land in the same bytes. The caller sees to it that no other operation under way uses those.
FARPAGE_API farpage_code_t farpage_fetch(farpage_t* client, const farpage_page_t* pages,
                                         size_t count, uint64_t timeout_us,
                                         const farpage_notification_t* notification,
                                         farpage_ticket_t** ticket);
// Stores pages from their memory: farpage_ticket_results(). min_version must be 0.
FARPAGE_API farpage_code_t farpage_put(farpage_t* client, const farpage_page_t* pages, size_t count,
                                       uint64_t timeout_us,
                                       const farpage_notification_t* notification,
                                       farpage_ticket_t** ticket);
// The same from a GPU's memory, behind the work that is on a stream of it now (a CUstream of its
// primary context; null: its default one): the pages are what they are once that work has ended. It
// must end within the timeout, too: a page that is not copied to the host by then is not stored
// (FARPAGE_TIMEOUT). No later work may write them until the ticket is released.
// FARPAGE_INVALID: memory of the host; the stream is being captured. FARPAGE_UNAVAILABLE: the
// driver refuses the stream.
FARPAGE_API farpage_code_t farpage_put_behind(farpage_t* client, const farpage_page_t* pages,
                                              size_t count, uint64_t timeout_us, void* stream,
                                              const farpage_notification_t* notification,
                                              farpage_ticket_t** ticket);
// Removes pages: farpage_ticket_removed().
FARPAGE_API farpage_code_t farpage_remove(farpage_t* client, const farpage_key_t* keys,
                                          size_t count, uint64_t timeout_us,
                                          const farpage_notification_t* notification,
                                          farpage_ticket_t** ticket);
// Asks which pages are there, and moves none: farpage_ticket_verdicts(), FARPAGE_READY for those. A
// hint: a page may go the next moment. Mostly a node's index alone is read: then version is 0, and
// one answer in a million is wrong.
FARPAGE_API farpage_code_t farpage_exists(farpage_t* client, const farpage_key_t* keys,
                                          size_t count, uint64_t timeout_us,
                                          const farpage_notification_t* notification,
                                          farpage_ticket_t** ticket);
// How many of the first keys have a page now. Blocks; what cannot be asked in time counts as
// missing. FARPAGE_BUSY: from a callback.
FARPAGE_API farpage_code_t farpage_leading(farpage_t* client, const farpage_key_t* keys,
                                           size_t count, uint64_t timeout_us, uint64_t* leading);
// Waits until every put and remove that was submitted before has its result. FARPAGE_TIMEOUT: one
// has none by then, and goes on. FARPAGE_BUSY: from a callback.
FARPAGE_API farpage_code_t farpage_flush(farpage_t* client, uint64_t timeout_us);

// ---- Pages fetched ahead, with ahead.pages in the configuration: such a page lies in the client's
// memory when it is fetched, and is copied from there. These calls do not block; what they say
// takes effect in their order, also with fetches, and has no ticket.
// FARPAGE_INVALID: ahead.pages is 0. FARPAGE_EXHAUSTED: as farpage_fetch(), whose tickets they
// share places with until the client's thread has heard them.

// These pages will be wanted within `wanted_in_us`: they are fetched ahead as there is room. Each
// stays until it is fetched, or withdrawn as often as announced, and by itself no longer than
// ahead.linger_ms after that time.
FARPAGE_API farpage_code_t farpage_announce(farpage_t* client, const farpage_key_t* keys,
                                            size_t count, uint64_t wanted_in_us);
FARPAGE_API farpage_code_t farpage_withdraw(farpage_t* client, const farpage_key_t* keys,
                                            size_t count);
// Pages that are worth coming back to: a word to ahead.prefetcher.
FARPAGE_API farpage_code_t farpage_mark_milestones(farpage_t* client, const farpage_key_t* keys,
                                                   size_t count);
// The accesses of a step, all of them in one call: ahead.prefetcher then has the pages fetched that
// it expects next. FARPAGE_INVALID: the sentence names the index of the access that is wrong.
FARPAGE_API farpage_code_t farpage_observe(farpage_t* client, const farpage_access_t* accesses,
                                           size_t count);

// ---- Counts

// Fills what the caller's header has of them. Does not block. FARPAGE_INVALID: struct_size.
FARPAGE_API farpage_code_t farpage_statistics(farpage_t* client, farpage_statistics_t* statistics);

// ---- Tickets. An operation is *done* when every page has its verdict or result, and *released*
// when no memory of its pages is read or written for it any more: mostly at the same time, and at
// the latest some seconds after its timeout.

// 1: it is; 0: not yet; -1: an error. Do not block.
FARPAGE_API int farpage_ticket_done(const farpage_ticket_t* ticket);
FARPAGE_API int farpage_ticket_released(const farpage_ticket_t* ticket);
// Block until it is, or FARPAGE_TIMEOUT. FARPAGE_BUSY: from a callback, which cannot wait.
FARPAGE_API farpage_code_t farpage_ticket_wait(const farpage_ticket_t* ticket, uint64_t timeout_us);
FARPAGE_API farpage_code_t farpage_ticket_wait_released(const farpage_ticket_t* ticket,
                                                        uint64_t timeout_us);

// One verdict or result a page, in the order of the call; they are the ticket's and end with it.
// `held` is as of the last call. FARPAGE_BUSY: it is not done. FARPAGE_INVALID: an operation of
// another kind.
FARPAGE_API farpage_code_t farpage_ticket_verdicts(farpage_ticket_t* ticket,
                                                   const farpage_page_verdict_t** verdicts,
                                                   size_t* count);
FARPAGE_API farpage_code_t farpage_ticket_results(farpage_ticket_t* ticket,
                                                  const farpage_put_result_t** results,
                                                  size_t* count);
// Of a farpage_remove(): how many of the keys had a page. FARPAGE_TIMEOUT, FARPAGE_UNAVAILABLE: it
// was not acknowledged. FARPAGE_BUSY: it is not done. Another code: a node refused it.
FARPAGE_API farpage_code_t farpage_ticket_removed(const farpage_ticket_t* ticket,
                                                  uint64_t* removed);
// Of a put or a remove that was not acknowledged: which node was in the way, in a sentence. "" if
// it was acknowledged or is not done. The ticket's, never null.
FARPAGE_API const char* farpage_ticket_why(farpage_ticket_t* ticket);
// Waits until it is released, and frees it; from a callback the client frees it later. Null:
// nothing.
FARPAGE_API void farpage_ticket_free(farpage_ticket_t* ticket);

// ---- Completions: a queue of tags for a thread with an event loop of its own.

// FARPAGE_EXHAUSTED: the process has no descriptors left.
FARPAGE_API farpage_code_t farpage_completions_new(farpage_completions_t** completions);
// Readable, for poll() and its like, while tags wait; not to be read
// or closed. -1 is an error.
FARPAGE_API int farpage_completions_fd(const farpage_completions_t* completions);
// Takes as many tags as wait and have room, and says how many. Does not block.
FARPAGE_API farpage_code_t farpage_completions_take(farpage_completions_t* completions,
                                                    uint64_t* tags, size_t room, size_t* taken);
// Tickets that name it go on; its descriptor closes with the last of them. Null: nothing.
FARPAGE_API void farpage_completions_free(farpage_completions_t* completions);

#ifdef __cplusplus
}
#endif
