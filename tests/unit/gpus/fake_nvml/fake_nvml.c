/*
 * fake_nvml.c - a stand-in libnvidia-ml.so.1 for machines without a GPU.
 *
 * Build:   gcc -O2 -g -Wall -Wextra -shared -fPIC -pthread -Wl,-soname,libnvidia-ml.so.1 \
 *              -o libnvidia-ml.so.1 fake_nvml.c
 * Use:     LD_LIBRARY_PATH=<dir> FAKE_NVML_STATE=<file> python -c 'import pynvml; pynvml.nvmlInit()'
 *
 * Build variants (what an older driver's library exports is part of its ABI):
 *   -DFAKE_NVML_R470      no *_v3 process calls, no MemoryInfo_v2, no TemperatureV,
 *                         no ProcessDetailList, no ProcessesUtilizationInfo
 *   -DFAKE_NVML_R535_54   *_v3 process calls write the short-lived 32-byte entry (extra
 *                         usedGpuCcProtectedMemory), ConfComputeMemSizeInfo is exported,
 *                         ProcessDetailList is not
 *   -DFAKE_NVML_USE_HEADER -I<dir of NVIDIA's nvml.h>   compile against NVIDIA's own header
 *                         instead of the types below: any wrong prototype is a compile error
 *
 * Environment:
 *   FAKE_NVML_STATE       state file. Re-read on every call when (inode, size, mtime) changed,
 *                         so a test changes utilization/processes/errors live. Write it to a
 *                         temporary name and rename(2) it over: a half-written file is then
 *                         never seen. Unset or unreadable: nvmlInit* = DRIVER_NOT_LOADED.
 *   FAKE_NVML_RECHECK_MS  look at the file at most once per this many ms (default 0: always)
 *   FAKE_NVML_LOG         append "<CLOCK_MONOTONIC ns> <tid> <function> <device> <return>" per call
 *
 * State file ('#' starts a comment; blank lines are ignored):
 *   driver = 570.86.10            nvml = 12.570.86.10          cuda = 12080
 *   [gpu0]                        one section for each device, in NVML index order
 *   name = NVIDIA H100            uuid = GPU-...   serial = 1234   pci = 00000000:1B:00.0
 *   util = 37                     any number: decimal, 0x.., or with K/M/G (KiB, MiB, GiB);
 *                                 "na" -> NVML_ERROR_NOT_SUPPORTED, "!15" or "!GPU_IS_LOST" ->
 *                                 that error from the calls that read it
 *   proc = PID MEM [C|G|M [SM [MEMUTIL [ENC [DEC [GI [CI]]]]]]]   repeatable; MEM may be "na"
 *   [gpu0.mig0]                   uuid, name, gi, ci, mem_total, mem_used, mem_reserved, sm_count, slices
 *   [errors]                      FUNCTION[@DEV] = CODE [skip=N] [times=M]
 *                                 FUNCTION may end in '*'; DEV is an index or '*'; the first rule that
 *                                 fires wins; skip/times count down in this process, from each re-read on
 *   [delays]                      FUNCTION[@DEV] = MICROSECONDS
 * Numeric keys: see KEYS below, with their defaults.
 *
 * Own work: struct layouts and call rules follow NVIDIA's public NVML API documentation.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifdef FAKE_NVML_USE_HEADER
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include "nvml.h"
#define OK NVML_SUCCESS
#else
/* ---- the part of the NVML ABI that is implemented here --------------------------------- */
typedef unsigned int nvmlReturn_t, nvmlEnableState_t, nvmlClockType_t, nvmlClockId_t, nvmlPstates_t;
typedef unsigned int nvmlTemperatureSensors_t, nvmlTemperatureThresholds_t, nvmlPcieUtilCounter_t;
typedef unsigned int nvmlComputeMode_t, nvmlDriverModel_t, nvmlMemoryErrorType_t, nvmlEccCounterType_t;
typedef unsigned int nvmlBrandType_t, nvmlDeviceArchitecture_t, nvmlSamplingType_t, nvmlValueType_t;
typedef struct nvmlDevice_st *nvmlDevice_t;
#define OK 0u
typedef struct { char busIdLegacy[16]; unsigned domain, bus, device, pciDeviceId, pciSubSystemId; char busId[32]; } nvmlPciInfo_t;
typedef struct { unsigned version, domain, bus, device, pciDeviceId, pciSubSystemId, baseClass, subClass; char busId[32]; } nvmlPciInfoExt_t;
typedef struct { unsigned gpu, memory; } nvmlUtilization_t;
typedef struct { unsigned long long total, free, used; } nvmlMemory_t;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } nvmlMemory_v2_t;
typedef struct { unsigned long long bar1Total, bar1Free, bar1Used; } nvmlBAR1Memory_t;
typedef struct { unsigned version; nvmlTemperatureSensors_t sensorType; int temperature; } nvmlTemperature_t;
typedef struct { unsigned pid; unsigned long long usedGpuMemory; } nvmlProcessInfo_v1_t;
typedef struct { unsigned pid; unsigned long long usedGpuMemory; unsigned gpuInstanceId, computeInstanceId; } nvmlProcessInfo_v2_t;
typedef nvmlProcessInfo_v2_t nvmlProcessInfo_t;
typedef struct { unsigned pid; unsigned long long usedGpuMemory; unsigned gpuInstanceId, computeInstanceId;
                 unsigned long long usedGpuCcProtectedMemory; } nvmlProcessDetail_v1_t;
typedef struct { unsigned version, mode, numProcArrayEntries; nvmlProcessDetail_v1_t *procArray; } nvmlProcessDetailList_t;
typedef struct { unsigned pid; unsigned long long timeStamp; unsigned smUtil, memUtil, encUtil, decUtil; } nvmlProcessUtilizationSample_t;
typedef struct { unsigned long long timeStamp; unsigned pid, smUtil, memUtil, encUtil, decUtil, jpgUtil, ofaUtil; } nvmlProcessUtilizationInfo_v1_t;
typedef struct { unsigned version, processSamplesCount; unsigned long long lastSeenTimeStamp;
                 nvmlProcessUtilizationInfo_v1_t *procUtilArray; } nvmlProcessesUtilizationInfo_t;
typedef union { double dVal; int siVal; unsigned uiVal; unsigned long ulVal; unsigned long long ullVal; signed long long sllVal; unsigned short usVal; } nvmlValue_t;
typedef struct { unsigned fieldId, scopeId; long long timestamp, latencyUsec; nvmlValueType_t valueType; nvmlReturn_t nvmlReturn; nvmlValue_t value; } nvmlFieldValue_t;
typedef struct { unsigned long long timeStamp; nvmlValue_t sampleValue; } nvmlSample_t;
typedef struct { unsigned multiprocessorCount, sharedCopyEngineCount, sharedDecoderCount, sharedEncoderCount, sharedJpegCount,
                 sharedOfaCount, gpuInstanceSliceCount, computeInstanceSliceCount; unsigned long long memorySizeMB; } nvmlDeviceAttributes_t;
typedef struct { unsigned long long protectedMemSizeKib, unprotectedMemSizeKib; } nvmlConfComputeMemSizeInfo_t;
#endif
/* The only layouts that are wrong on one side or the other in the wild. */
_Static_assert(sizeof(nvmlPciInfo_t) == 68, "PciInfo v3");
_Static_assert(sizeof(nvmlMemory_v2_t) == 0x28, "Memory v2");
_Static_assert(sizeof(nvmlProcessInfo_v1_t) == 16 && sizeof(nvmlProcessInfo_v2_t) == 24 && sizeof(nvmlProcessDetail_v1_t) == 32, "ProcessInfo");
_Static_assert(sizeof(nvmlProcessUtilizationSample_t) == 32 && sizeof(nvmlProcessUtilizationInfo_v1_t) == 40, "ProcessUtilization");
_Static_assert(sizeof(nvmlFieldValue_t) == 40 && sizeof(nvmlTemperature_t) == 12 && sizeof(nvmlPciInfoExt_t) == 64, "misc");

enum { E_UNINIT = 1, E_ARG = 2, E_NOSUPP = 3, E_NOPERM = 4, E_NOTFOUND = 6, E_SIZE = 7, E_NODRIVER = 9, E_VERSION = 25 };
static const struct { int code; const char *name, *text; } ERRS[] = {
    {0, "SUCCESS", "Success"}, {1, "UNINITIALIZED", "Uninitialized"}, {2, "INVALID_ARGUMENT", "Invalid Argument"},
    {3, "NOT_SUPPORTED", "Not Supported"}, {4, "NO_PERMISSION", "Insufficient Permissions"},
    {5, "ALREADY_INITIALIZED", "Already Initialized"}, {6, "NOT_FOUND", "Not Found"},
    {7, "INSUFFICIENT_SIZE", "Insufficient Size"}, {8, "INSUFFICIENT_POWER", "Insufficient External Power"},
    {9, "DRIVER_NOT_LOADED", "Driver Not Loaded"}, {10, "TIMEOUT", "Timeout"},
    {11, "IRQ_ISSUE", "Interrupt Request Issue"}, {12, "LIBRARY_NOT_FOUND", "NVML Shared Library Not Found"},
    {13, "FUNCTION_NOT_FOUND", "Function Not Found"}, {14, "CORRUPTED_INFOROM", "Corrupted infoROM"},
    {15, "GPU_IS_LOST", "GPU is lost"}, {16, "RESET_REQUIRED", "GPU requires reset"},
    {17, "OPERATING_SYSTEM", "GPU access blocked by the operating system"},
    {18, "LIB_RM_VERSION_MISMATCH", "Driver/library version mismatch"}, {19, "IN_USE", "In use by another client"},
    {20, "MEMORY", "Insufficient Memory"}, {21, "NO_DATA", "No data"},
    {23, "INSUFFICIENT_RESOURCES", "Insufficient Resources"},
    {25, "ARGUMENT_VERSION_MISMATCH", "Argument version mismatch"}, {26, "DEPRECATED", "Deprecated"},
    {27, "NOT_READY", "System is not ready"}, {28, "GPU_NOT_FOUND", "GPU not found"},
    {29, "INVALID_STATE", "Invalid State"}, {999, "UNKNOWN", "Unknown Error"}};

/* ---- state ------------------------------------------------------------------------------ */
#define MAXGPU 64
#define MAXMIG 8
#define MAXPROC 512
#define MAXRULE 64
/* numeric keys of a [gpuN] section and their defaults; -1 = "na" */
#define KEYS(X) \
  X(util, 0) X(mem_util, 0) X(mem_total, 85899345920LL) X(mem_used, 0) X(mem_reserved, 536870912) \
  X(bar1_total, 137438953472LL) X(bar1_used, 1048576) X(temp, 30) X(temp_mem, -1) X(temp_shutdown, 95) X(temp_slowdown, 90) \
  X(temp_gpu_max, 87) X(power, 60000) X(power_limit, 700000) X(power_default, 700000) X(power_min, 200000) X(power_max, 700000) \
  X(energy, 1000000) X(fan, -1) X(num_fans, 0) X(clk_gfx, 345) X(clk_sm, 345) X(clk_mem, 2619) X(clk_video, 765) \
  X(max_gfx, 1980) X(max_sm, 1980) X(max_mem, 2619) X(max_video, 1545) X(pstate, 0) X(enc, 0) X(dec, 0) X(jpg, 0) X(ofa, 0) \
  X(pcie_tx, 0) X(pcie_rx, 0) X(pcie_gen, 5) X(pcie_width, 16) X(pcie_gen_max, 5) X(pcie_width_max, 16) X(throttle, 0) \
  X(compute_mode, 0) X(persistence, 1) X(display_active, 0) X(display_mode, 0) X(ecc_mode, 1) X(ecc_errors, 0) X(ecc_uncorrected, 0) X(pcie_replays, 0) X(mig_mode, 0) \
  X(mig_max, 7) X(cc_major, 9) X(cc_minor, 0) X(arch, 9) X(brand, 14) X(minor, -2) X(cores, 16896) X(accounting, 0) \
  X(proc_list, 1) X(proc_util, 1) X(nvlinks, 0) X(pci_device_id, 0x233010DE) X(pci_subsys_id, 0x16C110DE)
enum key {
#define X(k, d) K_##k,
    KEYS(X)
#undef X
    NKEY
};
typedef struct { int err; long long v; } val;
struct proc { unsigned pid; unsigned long long mem; char type; unsigned sm, fb, enc, dec, gi, ci; };
struct mig { int present; char name[96], uuid[96]; unsigned gi, ci, sms, slices; val total, used, reserved; };
struct gpu { int present; char name[96], uuid[96], serial[32], pci[32]; val k[NKEY]; struct mig mig[MAXMIG]; int nproc; struct proc proc[MAXPROC]; };
struct rule { char fn[64]; int wild, dev, code, skip, times; };
static struct state {
    char driver[80], nvml[80]; int cuda, ngpu, nerr, ndelay; struct gpu g[MAXGPU]; struct rule err[MAXRULE], delay[MAXRULE];
} S, T;
/* Handles: one opaque address per physical device and per MIG device. */
struct nvmlDevice_st { int gpu, mig; };
static struct nvmlDevice_st H[MAXGPU][MAXMIG + 1];
static pthread_mutex_t L = PTHREAD_MUTEX_INITIALIZER;
static int refs, loaded;
static struct stat seen;
static long long last_check;
static FILE *logf_;

static long long now_ns(int clk) { struct timespec t; clock_gettime(clk, &t); return t.tv_sec * 1000000000LL + t.tv_nsec; }

static int parse_err(const char *s) {
    if (!strncmp(s, "NVML_ERROR_", 11)) s += 11;
    if (isdigit((unsigned char)*s)) return atoi(s);
    for (size_t i = 0; i < sizeof ERRS / sizeof *ERRS; i++) {
        size_t n = strlen(ERRS[i].name);
        if (!strncmp(s, ERRS[i].name, n) && !(isalnum((unsigned char)s[n]) || s[n] == '_')) return ERRS[i].code;
    }
    return 999;
}
static val parse_val(const char *s) {
    val r = {0, 0};
    if (!strncasecmp(s, "na", 2) || !strncasecmp(s, "n/a", 3)) { r.err = E_NOSUPP; return r; }
    if (*s == '!') { r.err = parse_err(s + 1); return r; }
    char *e; r.v = (long long)strtoull(s, &e, 0);
    while (*e == ' ') e++;
    unsigned sh = *e == 'K' ? 10 : *e == 'M' ? 20 : *e == 'G' ? 30 : 0;
    r.v = (long long)((unsigned long long)r.v << sh);
    return r;
}
static const char *const KEYNAME[] = {
#define X(k, d) #k,
    KEYS(X)
#undef X
};
static void gpu_defaults(struct gpu *g, int i) {
    static const long long DEF[] = {
#define X(k, d) d,
        KEYS(X)
#undef X
    };
    memset(g, 0, sizeof *g);
    g->present = 1;
    for (int k = 0; k < NKEY; k++) { g->k[k].v = DEF[k]; if (DEF[k] == -1) g->k[k].err = E_NOSUPP; }
    g->k[K_minor].v = i;
    snprintf(g->name, sizeof g->name, "NVIDIA H100 80GB HBM3");
    snprintf(g->uuid, sizeof g->uuid, "GPU-%08x-fa4e-4f00-8000-%012x", 0xFA4E0000u + i, i);
    snprintf(g->serial, sizeof g->serial, "16543230%05d", i);
    snprintf(g->pci, sizeof g->pci, "%08X:%02X:00.0", 0, 0x1B + i * 0x10);
}
static void copy(char *d, size_t n, const char *s) { snprintf(d, n, "%s", s); }

static void parse(FILE *f, struct state *t) {
    char line[1024], sec[64] = "";
    memset(t, 0, offsetof(struct state, g)); /* gpus are set by gpu_defaults */
    for (int i = 0; i < MAXGPU; i++) t->g[i].present = 0;
    copy(t->driver, sizeof t->driver, "570.86.10"); copy(t->nvml, sizeof t->nvml, "12.570.86.10"); t->cuda = 12080;
    struct gpu *g = NULL; struct mig *m = NULL;
    while (fgets(line, sizeof line, f)) {
        char *h = strchr(line, '#'); if (h) *h = 0;
        char *s = line; while (isspace((unsigned char)*s)) s++;
        char *e = s + strlen(s); while (e > s && isspace((unsigned char)e[-1])) *--e = 0;
        if (!*s) continue;
        if (*s == '[') {
            int i, j, n = 0; g = NULL; m = NULL; copy(sec, sizeof sec, s);
            if (sscanf(s, "[gpu%d.mig%d]%n", &i, &j, &n) == 2 && n && i >= 0 && i < MAXGPU && j >= 0 && j < MAXMIG) {
                if (!t->g[i].present) gpu_defaults(&t->g[i], i);
                m = &t->g[i].mig[j]; m->present = 1; m->gi = j + 1; m->ci = 0; m->sms = 14; m->slices = 1; m->total.v = 10LL << 30;
                copy(m->name, sizeof m->name, "NVIDIA H100 80GB HBM3 MIG 1g.10gb");
                snprintf(m->uuid, sizeof m->uuid, "MIG-%08x-fa4e-4f00-8000-%06x%06x", 0xFA4E0000u + i, i, j);
            } else if (sscanf(s, "[gpu%d]%n", &i, &n) == 1 && n && i >= 0 && i < MAXGPU) {
                if (!t->g[i].present) gpu_defaults(&t->g[i], i);
                g = &t->g[i];
            }
            continue;
        }
        char *eq = strchr(s, '='); if (!eq) continue;
        char *v = eq + 1; while (isspace((unsigned char)*v)) v++;
        while (eq > s && isspace((unsigned char)eq[-1])) eq--;
        *eq = 0;
        if (m) {
            if (!strcmp(s, "uuid")) copy(m->uuid, sizeof m->uuid, v);
            else if (!strcmp(s, "name")) copy(m->name, sizeof m->name, v);
            else if (!strcmp(s, "gi")) m->gi = atoi(v);
            else if (!strcmp(s, "ci")) m->ci = atoi(v);
            else if (!strcmp(s, "sm_count")) m->sms = atoi(v);
            else if (!strcmp(s, "slices")) m->slices = atoi(v);
            else if (!strcmp(s, "mem_total")) m->total = parse_val(v);
            else if (!strcmp(s, "mem_used")) m->used = parse_val(v);
            else if (!strcmp(s, "mem_reserved")) m->reserved = parse_val(v);
        } else if (g) {
            if (!strcmp(s, "name")) copy(g->name, sizeof g->name, v);
            else if (!strcmp(s, "uuid")) copy(g->uuid, sizeof g->uuid, v);
            else if (!strcmp(s, "serial")) copy(g->serial, sizeof g->serial, v);
            else if (!strcmp(s, "pci")) copy(g->pci, sizeof g->pci, v);
            else if (!strcmp(s, "proc")) {
                if (g->nproc >= MAXPROC) continue;
                struct proc *p = &g->proc[g->nproc++];
                char mem[32] = "0", ty[8] = "C"; p->sm = p->fb = p->enc = p->dec = 0; p->gi = p->ci = 0xFFFFFFFFu;
                sscanf(v, "%u %31s %7s %u %u %u %u %u %u", &p->pid, mem, ty, &p->sm, &p->fb, &p->enc, &p->dec, &p->gi, &p->ci);
                val mv = parse_val(mem); p->mem = mv.err ? ~0ULL : (unsigned long long)mv.v; p->type = ty[0];
            } else
                for (int k = 0; k < NKEY; k++) if (!strcmp(s, KEYNAME[k])) { g->k[k] = parse_val(v); break; }
        } else if (!strcmp(sec, "[errors]") || !strcmp(sec, "[delays]")) {
            int is_err = sec[1] == 'e'; int *n = is_err ? &t->nerr : &t->ndelay;
            if (*n >= MAXRULE) continue;
            struct rule *r = (is_err ? t->err : t->delay) + (*n)++;
            char *at = strchr(s, '@'); r->dev = -1; r->skip = 0; r->times = -1;
            if (at) { *at++ = 0; if (*at != '*') r->dev = atoi(at); }
            copy(r->fn, sizeof r->fn, s); size_t l = strlen(r->fn);
            r->wild = l && r->fn[l - 1] == '*'; if (r->wild) r->fn[l - 1] = 0;
            r->code = is_err ? parse_err(v) : atoi(v);
            char *q; if ((q = strstr(v, "skip="))) r->skip = atoi(q + 5);
            if ((q = strstr(v, "times="))) r->times = atoi(q + 6);
        } else if (!*sec) {
            if (!strcmp(s, "driver")) copy(t->driver, sizeof t->driver, v);
            else if (!strcmp(s, "nvml")) copy(t->nvml, sizeof t->nvml, v);
            else if (!strcmp(s, "cuda")) t->cuda = atoi(v);
        }
    }
    while (t->ngpu < MAXGPU && t->g[t->ngpu].present) t->ngpu++;
}
static void reload(void) { /* L is held */
    static long long recheck = -1;
    const char *p = getenv("FAKE_NVML_STATE");
    if (recheck < 0) { const char *r = getenv("FAKE_NVML_RECHECK_MS"); recheck = r ? atoll(r) * 1000000 : 0; }
    if (recheck && loaded) { long long t = now_ns(CLOCK_MONOTONIC); if (t - last_check < recheck) return; last_check = t; }
    struct stat st;
    if (!p || stat(p, &st)) return; /* keep the last state if the file vanishes */
    if (loaded && st.st_ino == seen.st_ino && st.st_size == seen.st_size && st.st_mtim.tv_sec == seen.st_mtim.tv_sec &&
        st.st_mtim.tv_nsec == seen.st_mtim.tv_nsec) return;
    FILE *f = fopen(p, "re"); if (!f) return;
    parse(f, &T); fclose(f);
    S = T; seen = st; loaded = 1;
    for (int i = 0; i < MAXGPU; i++) for (int j = 0; j <= MAXMIG; j++) { H[i][j].gpu = i; H[i][j].mig = j - 1; }
}
static int match(const struct rule *r, const char *fn, int dev) {
    if (r->dev >= 0 && r->dev != dev) return 0;
    return r->wild ? !strncmp(fn, r->fn, strlen(r->fn)) : !strcmp(fn, r->fn);
}
static void logit(const char *fn, int dev, int ret) {
    static int tried;
    if (!tried) { tried = 1; const char *p = getenv("FAKE_NVML_LOG"); if (p) { logf_ = fopen(p, "ae"); if (logf_) setlinebuf(logf_); } }
    if (logf_) fprintf(logf_, "%lld %ld %s %d %d\n", now_ns(CLOCK_MONOTONIC), (long)syscall(SYS_gettid), fn, dev, ret);
}
/* Which device does a handle mean? -1: not one of ours. */
static int locate(nvmlDevice_t d, int *gpu, int *mig) {
    struct nvmlDevice_st *h = (struct nvmlDevice_st *)d, *b = &H[0][0];
    if (h < b || h >= b + MAXGPU * (MAXMIG + 1) || ((char *)h - (char *)b) % sizeof *h) return -1;
    *gpu = h->gpu; *mig = h->mig;
    return h->gpu < S.ngpu && (h->mig < 0 || S.g[h->gpu].mig[h->mig].present) ? 0 : -1;
}
/* Enter a call: take the lock, refresh the state, apply delays and injected errors.
   Returns 0 to go on, or the code to return. The lock is held either way until leave(). */
static int enter(const char *fn, nvmlDevice_t d, int needs_dev, int *gpu, int *mig) {
    int dev = -1, us = 0, e = 0; *gpu = -1; *mig = -1;
    pthread_mutex_lock(&L);
    reload();
    if (needs_dev && !locate(d, gpu, mig)) dev = *gpu;
    for (int i = 0; i < S.ndelay; i++) if (match(&S.delay[i], fn, dev)) us += S.delay[i].code;
    if (us) {
        pthread_mutex_unlock(&L);
        struct timespec t = {us / 1000000, us % 1000000 * 1000L};
        while (nanosleep(&t, &t) && errno == EINTR) {}
        pthread_mutex_lock(&L); reload();
    }
    int init = !strncmp(fn, "nvmlInit", 8);
    if (!loaded) return init ? E_NODRIVER : E_UNINIT;
    if (!init && !refs && strcmp(fn, "nvmlErrorString")) return E_UNINIT;
    for (int i = 0; i < S.nerr && !e; i++) if (match(&S.err[i], fn, dev)) {
        if (S.err[i].skip > 0) { S.err[i].skip--; continue; }
        if (S.err[i].times == 0) continue;
        if (S.err[i].times > 0) S.err[i].times--;
        e = S.err[i].code;
    }
    if (e) return e;
    if (needs_dev && locate(d, gpu, mig)) return E_ARG;
    return 0;
}
static nvmlReturn_t leave(const char *fn, int dev, int ret) { logit(fn, dev, ret); pthread_mutex_unlock(&L); return (nvmlReturn_t)ret; }

#define EXPORT __attribute__((visibility("default")))
#define BEGIN(d) int gi_, mi_; int r_ = enter(__func__, d, 1, &gi_, &mi_); struct gpu *g = gi_ >= 0 ? &S.g[gi_] : NULL; \
    struct mig *m = gi_ >= 0 && mi_ >= 0 ? &S.g[gi_].mig[mi_] : NULL; (void)g; (void)m; if (r_) return leave(__func__, gi_, r_)
#define BEGIN0() int gi_, mi_; int r_ = enter(__func__, NULL, 0, &gi_, &mi_); if (r_) return leave(__func__, -1, r_)
#define RET(c) return leave(__func__, gi_, (c))
#define NEED(p) do { if (!(p)) RET(E_ARG); } while (0)
/* read one number of the physical device; MIG handles do not support it */
#define GETNUM(key, out) do { NEED(out); if (m) RET(E_NOSUPP); val v_ = g->k[key]; if (v_.err) RET(v_.err); *(out) = v_.v; RET(0); } while (0)
#define SIMPLE(fn, type, key) EXPORT nvmlReturn_t fn(nvmlDevice_t d, type *out) { BEGIN(d); GETNUM(key, out); }
#define PAIR(fn, key) EXPORT nvmlReturn_t fn(nvmlDevice_t d, unsigned *out, unsigned *us) { BEGIN(d); NEED(us); *us = 166666; GETNUM(key, out); }
static int put(char *b, unsigned n, const char *s) { if (!b) return E_ARG; if (strlen(s) + 1 > n) return E_SIZE; strcpy(b, s); return 0; }

/* ---- library and system ------------------------------------------------------------------ */
static nvmlReturn_t do_init(const char *fn) {
    int a, b, r = enter(fn, NULL, 0, &a, &b);
    if (!r) refs++;
    return leave(fn, -1, r);
}
EXPORT nvmlReturn_t nvmlInit(void) { return do_init(__func__); }
EXPORT nvmlReturn_t nvmlInit_v2(void) { return do_init(__func__); }
EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned flags) { (void)flags; return do_init(__func__); }
EXPORT nvmlReturn_t nvmlShutdown(void) { BEGIN0(); refs--; RET(0); }
EXPORT const char *nvmlErrorString(nvmlReturn_t c) {
    for (size_t i = 0; i < sizeof ERRS / sizeof *ERRS; i++) if (ERRS[i].code == (int)c) return ERRS[i].text;
    return "Unknown Error";
}
EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *v, unsigned n) { BEGIN0(); RET(put(v, n, S.driver)); }
EXPORT nvmlReturn_t nvmlSystemGetNVMLVersion(char *v, unsigned n) { BEGIN0(); RET(put(v, n, S.nvml)); }
EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *v) { BEGIN0(); NEED(v); *v = S.cuda; RET(0); }
EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *v) { BEGIN0(); NEED(v); *v = S.cuda; RET(0); }
EXPORT nvmlReturn_t nvmlSystemGetProcessName(unsigned pid, char *name, unsigned n) {
    BEGIN0(); NEED(name && n);
    char p[64], b[1024]; snprintf(p, sizeof p, "/proc/%u/cmdline", pid);
    FILE *f = fopen(p, "re"); if (!f) RET(E_NOTFOUND);
    size_t k = fread(b, 1, sizeof b - 1, f); fclose(f); b[k] = 0;
    if (!k) RET(E_NOTFOUND);
    snprintf(name, n, "%s", b); RET(0);
}
/* ---- enumeration ------------------------------------------------------------------------- */
EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *n) { BEGIN0(); NEED(n); *n = S.ngpu; RET(0); }
EXPORT nvmlReturn_t nvmlDeviceGetCount(unsigned *n) { BEGIN0(); NEED(n); *n = S.ngpu; RET(0); }
/* lookups: the error rules must see the device that is looked up, so they are applied by hand */
static nvmlReturn_t by(const char *fn, int gpu, int mig, int miss, nvmlDevice_t *d) { /* L is held, after enter() */
    if (!d) return leave(fn, gpu, E_ARG);
    if (gpu < 0 || gpu >= S.ngpu) return leave(fn, -1, miss);
    for (int i = 0; i < S.nerr; i++) if (S.err[i].dev == gpu && match(&S.err[i], fn, gpu)) {
        if (S.err[i].skip > 0) { S.err[i].skip--; continue; }
        if (S.err[i].times == 0) continue;
        if (S.err[i].times > 0) S.err[i].times--;
        return leave(fn, gpu, S.err[i].code);
    }
    *d = (nvmlDevice_t)&H[gpu][mig + 1];
    return leave(fn, gpu, 0);
}
static nvmlReturn_t by_index(const char *fn, unsigned i, nvmlDevice_t *d) {
    int a, b, r = enter(fn, NULL, 0, &a, &b);
    return r ? leave(fn, -1, r) : by(fn, i < MAXGPU ? (int)i : -1, -1, E_ARG, d);
}
EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned i, nvmlDevice_t *d) { return by_index(__func__, i, d); }
EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned i, nvmlDevice_t *d) { return by_index(__func__, i, d); }
EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *u, nvmlDevice_t *d) {
    BEGIN0(); NEED(u);
    for (int i = 0; i < S.ngpu; i++) {
        if (!strcmp(S.g[i].uuid, u)) return by(__func__, i, -1, E_NOTFOUND, d);
        for (int j = 0; j < MAXMIG; j++) if (S.g[i].mig[j].present && !strcmp(S.g[i].mig[j].uuid, u)) return by(__func__, i, j, E_NOTFOUND, d);
    }
    return by(__func__, -1, -1, E_NOTFOUND, d);
}
static void pci_parts(const struct gpu *g, unsigned *dom, unsigned *bus, unsigned *dev) {
    unsigned f; *dom = *bus = *dev = 0; sscanf(g->pci, "%x:%x:%x.%x", dom, bus, dev, &f);
}
static nvmlReturn_t by_pci(const char *fn, const char *p, nvmlDevice_t *d) {
    int a, b, r = enter(fn, NULL, 0, &a, &b); if (r) return leave(fn, -1, r);
    unsigned D, B, V, f, x, y, z; int hit = -1;
    if (!p || sscanf(p, "%x:%x:%x.%x", &D, &B, &V, &f) < 3) return leave(fn, -1, E_ARG);
    for (int i = 0; i < S.ngpu; i++) { pci_parts(&S.g[i], &x, &y, &z); if (x == D && y == B && z == V) hit = i; }
    return by(fn, hit, -1, E_NOTFOUND, d);
}
EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *p, nvmlDevice_t *d) { return by_pci(__func__, p, d); }
EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *p, nvmlDevice_t *d) { return by_pci(__func__, p, d); }
EXPORT nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *s, nvmlDevice_t *d) {
    BEGIN0(); NEED(s);
    for (int i = 0; i < S.ngpu; i++) if (!strcmp(S.g[i].serial, s)) return by(__func__, i, -1, E_NOTFOUND, d);
    return by(__func__, -1, -1, E_NOTFOUND, d);
}
/* ---- identity ---------------------------------------------------------------------------- */
EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t d, unsigned *i) { BEGIN(d); NEED(i); *i = m ? mi_ : gi_; RET(0); }
EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t d, char *b, unsigned n) { BEGIN(d); RET(put(b, n, m ? m->name : g->name)); }
EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t d, char *b, unsigned n) { BEGIN(d); RET(put(b, n, m ? m->uuid : g->uuid)); }
EXPORT nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t d, char *b, unsigned n) { BEGIN(d); if (m || !strcasecmp(g->serial, "na")) RET(E_NOSUPP); RET(put(b, n, g->serial)); }
EXPORT nvmlReturn_t nvmlDeviceGetVbiosVersion(nvmlDevice_t d, char *b, unsigned n) { BEGIN(d); RET(put(b, n, "96.00.A5.00.01")); }
/* busIdLegacy has a 4-digit domain, busId an 8-digit one; v1/v2 callers own only the first 52 bytes */
static void fill_pci(const struct gpu *g, nvmlPciInfo_t *o, int v3) {
    unsigned D, B, V; pci_parts(g, &D, &B, &V);
    memset(o, 0, v3 ? sizeof *o : 52);
    snprintf(o->busIdLegacy, sizeof o->busIdLegacy, "%04X:%02X:%02X.0", D & 0xFFFF, B & 0xFF, V & 0xFF);
    o->domain = D; o->bus = B; o->device = V; o->pciDeviceId = g->k[K_pci_device_id].v; o->pciSubSystemId = g->k[K_pci_subsys_id].v;
    if (v3) snprintf(o->busId, sizeof o->busId, "%08X:%02X:%02X.0", D, B & 0xFF, V & 0xFF);
}
EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t d, nvmlPciInfo_t *o) { BEGIN(d); NEED(o); fill_pci(g, o, 1); RET(0); }
EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t d, nvmlPciInfo_t *o) { BEGIN(d); NEED(o); fill_pci(g, o, 0); RET(0); }
EXPORT nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t d, nvmlPciInfo_t *o) { BEGIN(d); NEED(o); fill_pci(g, o, 0); RET(0); }
EXPORT nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t d, nvmlPciInfoExt_t *o) {
    BEGIN(d); NEED(o); if (o->version != 0x01000040u) RET(E_VERSION);
    pci_parts(g, &o->domain, &o->bus, &o->device); o->pciDeviceId = g->k[K_pci_device_id].v; o->pciSubSystemId = g->k[K_pci_subsys_id].v;
    o->baseClass = 3; o->subClass = 2; snprintf(o->busId, sizeof o->busId, "%08X:%02X:%02X.0", o->domain, o->bus & 0xFF, o->device & 0xFF); RET(0);
}
EXPORT nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t d, int *a, int *b) { BEGIN(d); NEED(a && b); *a = g->k[K_cc_major].v; *b = g->k[K_cc_minor].v; RET(0); }
SIMPLE(nvmlDeviceGetMinorNumber, unsigned, K_minor)
SIMPLE(nvmlDeviceGetBrand, nvmlBrandType_t, K_brand)
SIMPLE(nvmlDeviceGetArchitecture, nvmlDeviceArchitecture_t, K_arch)
SIMPLE(nvmlDeviceGetNumGpuCores, unsigned, K_cores)
/* ---- metrics ------------------------------------------------------------------------------ */
EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t d, nvmlUtilization_t *o) {
    BEGIN(d); NEED(o);
    if (m || g->k[K_mig_mode].v == 1) RET(E_NOSUPP); /* documented: not supported on MIG-enabled GPUs */
    if (g->k[K_util].err) RET(g->k[K_util].err);
    if (g->k[K_mem_util].err) RET(g->k[K_mem_util].err);
    o->gpu = g->k[K_util].v; o->memory = g->k[K_mem_util].v; RET(0);
}
static int mem(const struct gpu *g, const struct mig *m, unsigned long long *t, unsigned long long *u, unsigned long long *r) {
    val a = m ? m->total : g->k[K_mem_total], b = m ? m->used : g->k[K_mem_used], c = m ? m->reserved : g->k[K_mem_reserved];
    if (a.err || b.err) return a.err ? a.err : b.err;
    *t = a.v; *u = b.v; *r = c.err ? 0 : (unsigned long long)c.v; return 0;
}
EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t d, nvmlMemory_t *o) { /* v1: since R510 "used" counts the reserved part too */
    BEGIN(d); NEED(o); unsigned long long t, u, r; int e = mem(g, m, &t, &u, &r); if (e) RET(e);
#ifdef FAKE_NVML_R470
    r = 0;
#endif
    o->total = t; o->used = u + r > t ? t : u + r; o->free = t - o->used; RET(0);
}
#ifndef FAKE_NVML_R470
EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t d, nvmlMemory_v2_t *o) {
    BEGIN(d); NEED(o); if (o->version != 0x02000028u) RET(E_VERSION);
    unsigned long long t, u, r; int e = mem(g, m, &t, &u, &r); if (e) RET(e);
    o->total = t; o->reserved = r; o->used = u; o->free = t > u + r ? t - u - r : 0; RET(0);
}
EXPORT nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t d, nvmlTemperature_t *o) {
    BEGIN(d); NEED(o); if (o->version != 0x0100000Cu) RET(E_VERSION);
    if (o->sensorType != 0) RET(E_ARG);
    GETNUM(K_temp, &o->temperature);
}
#endif
EXPORT nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t d, nvmlBAR1Memory_t *o) {
    BEGIN(d); NEED(o); if (g->k[K_bar1_total].err) RET(g->k[K_bar1_total].err);
    o->bar1Total = g->k[K_bar1_total].v; o->bar1Used = g->k[K_bar1_used].v; o->bar1Free = o->bar1Total - o->bar1Used; RET(0);
}
EXPORT nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t d, nvmlTemperatureSensors_t s, unsigned *o) { BEGIN(d); if (s != 0) RET(E_ARG); GETNUM(K_temp, o); }
EXPORT nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t d, nvmlTemperatureThresholds_t t, unsigned *o) {
    BEGIN(d);
    if (t == 0) GETNUM(K_temp_shutdown, o);
    if (t == 1) GETNUM(K_temp_slowdown, o);
    if (t == 3) GETNUM(K_temp_gpu_max, o);
    RET(E_NOSUPP);
}
SIMPLE(nvmlDeviceGetPowerUsage, unsigned, K_power)
SIMPLE(nvmlDeviceGetEnforcedPowerLimit, unsigned, K_power_limit)
SIMPLE(nvmlDeviceGetPowerManagementLimit, unsigned, K_power_limit)
SIMPLE(nvmlDeviceGetPowerManagementDefaultLimit, unsigned, K_power_default)
EXPORT nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t d, unsigned *lo, unsigned *hi) { BEGIN(d); NEED(lo); *lo = g->k[K_power_min].v; GETNUM(K_power_max, hi); }
SIMPLE(nvmlDeviceGetTotalEnergyConsumption, unsigned long long, K_energy)
SIMPLE(nvmlDeviceGetFanSpeed, unsigned, K_fan)
SIMPLE(nvmlDeviceGetNumFans, unsigned, K_num_fans)
EXPORT nvmlReturn_t nvmlDeviceGetFanSpeed_v2(nvmlDevice_t d, unsigned f, unsigned *o) { BEGIN(d); if ((long long)f >= g->k[K_num_fans].v) RET(E_ARG); GETNUM(K_fan, o); }
static const enum key CLK[4] = {K_clk_gfx, K_clk_sm, K_clk_mem, K_clk_video}, MAXCLK[4] = {K_max_gfx, K_max_sm, K_max_mem, K_max_video};
EXPORT nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t d, nvmlClockType_t t, unsigned *o) { BEGIN(d); if (t > 3) RET(E_ARG); GETNUM(CLK[t], o); }
EXPORT nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t d, nvmlClockType_t t, unsigned *o) { BEGIN(d); if (t > 3) RET(E_ARG); GETNUM(MAXCLK[t], o); }
EXPORT nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t d, nvmlClockType_t t, nvmlClockId_t id, unsigned *o) { BEGIN(d); if (t > 3) RET(E_ARG); if (id == 0) GETNUM(CLK[t], o); GETNUM(MAXCLK[t], o); }
SIMPLE(nvmlDeviceGetPerformanceState, nvmlPstates_t, K_pstate)
SIMPLE(nvmlDeviceGetPowerState, nvmlPstates_t, K_pstate)
PAIR(nvmlDeviceGetEncoderUtilization, K_enc)
PAIR(nvmlDeviceGetDecoderUtilization, K_dec)
PAIR(nvmlDeviceGetJpgUtilization, K_jpg)
PAIR(nvmlDeviceGetOfaUtilization, K_ofa)
EXPORT nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t d, nvmlPcieUtilCounter_t c, unsigned *o) { BEGIN(d); if (c > 1) RET(E_ARG); GETNUM(c ? K_pcie_rx : K_pcie_tx, o); }
SIMPLE(nvmlDeviceGetCurrPcieLinkGeneration, unsigned, K_pcie_gen)
SIMPLE(nvmlDeviceGetCurrPcieLinkWidth, unsigned, K_pcie_width)
SIMPLE(nvmlDeviceGetMaxPcieLinkGeneration, unsigned, K_pcie_gen_max)
SIMPLE(nvmlDeviceGetMaxPcieLinkWidth, unsigned, K_pcie_width_max)
SIMPLE(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, K_throttle)
SIMPLE(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, K_throttle)
SIMPLE(nvmlDeviceGetComputeMode, nvmlComputeMode_t, K_compute_mode)
SIMPLE(nvmlDeviceGetPersistenceMode, nvmlEnableState_t, K_persistence)
SIMPLE(nvmlDeviceGetDisplayActive, nvmlEnableState_t, K_display_active)
SIMPLE(nvmlDeviceGetDisplayMode, nvmlEnableState_t, K_display_mode)
SIMPLE(nvmlDeviceGetAccountingMode, nvmlEnableState_t, K_accounting)
EXPORT nvmlReturn_t nvmlDeviceGetDriverModel(nvmlDevice_t d, nvmlDriverModel_t *a, nvmlDriverModel_t *b) { BEGIN(d); (void)a; (void)b; RET(E_NOSUPP); }
EXPORT nvmlReturn_t nvmlDeviceGetDriverModel_v2(nvmlDevice_t d, nvmlDriverModel_t *a, nvmlDriverModel_t *b) { BEGIN(d); (void)a; (void)b; RET(E_NOSUPP); }
EXPORT nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t d, nvmlEnableState_t *a, nvmlEnableState_t *b) { BEGIN(d); NEED(b); *b = g->k[K_ecc_mode].v; GETNUM(K_ecc_mode, a); }
EXPORT nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t d, nvmlMemoryErrorType_t t, nvmlEccCounterType_t c, unsigned long long *o) { BEGIN(d); (void)c; if (t > 1) RET(E_ARG); if (!g->k[K_ecc_mode].v || g->k[K_ecc_mode].err) RET(E_NOSUPP); GETNUM(t ? K_ecc_uncorrected : K_ecc_errors, o); }
SIMPLE(nvmlDeviceGetPcieReplayCounter, unsigned, K_pcie_replays)
/* NVML fills one entry per field; each entry carries its own return code */
EXPORT nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t d, int n, nvmlFieldValue_t *v) {
    BEGIN(d); NEED(v && n > 0);
    for (int i = 0; i < n; i++) {
        v[i].timestamp = now_ns(CLOCK_REALTIME) / 1000; v[i].latencyUsec = 1; v[i].nvmlReturn = OK; v[i].value.ullVal = 0;
        int k = -1, ull = 0;
        switch (v[i].fieldId) {
            case 82: k = K_temp_mem; break; case 83: case 191: k = K_energy; ull = 1; break;
            case 91: k = K_nvlinks; break; case 185: case 186: k = K_power; break;
        }
        if (k < 0 || m || g->k[k].err) { v[i].nvmlReturn = (nvmlReturn_t)(k < 0 || m ? E_NOSUPP : g->k[k].err); continue; }
        if (ull) { v[i].valueType = (nvmlValueType_t)3; v[i].value.ullVal = g->k[k].v; }
        else { v[i].valueType = (nvmlValueType_t)1; v[i].value.uiVal = g->k[k].v; }
    }
    RET(0);
}
EXPORT nvmlReturn_t nvmlDeviceGetSamples(nvmlDevice_t d, nvmlSamplingType_t t, unsigned long long seen_us, nvmlValueType_t *ty, unsigned *n, nvmlSample_t *o) {
    BEGIN(d); NEED(ty && n); (void)t; *ty = (nvmlValueType_t)1;
    if (!o) { *n = 120; RET(0); }
    unsigned long long now = now_ns(CLOCK_REALTIME) / 1000; unsigned k = 0, cap = *n;
    if (g->k[K_util].err) RET(g->k[K_util].err);
    for (int i = 5; i >= 0 && k < cap; i--) { unsigned long long ts = now - i * 166666ULL; if (ts > seen_us) { o[k].timeStamp = ts; o[k].sampleValue.ullVal = 0; o[k++].sampleValue.uiVal = g->k[K_util].v; } }
    *n = k; RET(k ? 0 : E_NOTFOUND);
}
/* ---- MIG ---------------------------------------------------------------------------------- */
EXPORT nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t d, unsigned *a, unsigned *b) { BEGIN(d); NEED(b); *b = g->k[K_mig_mode].v; GETNUM(K_mig_mode, a); }
EXPORT nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t d, unsigned *o) { BEGIN(d); NEED(o); *o = g->k[K_mig_mode].err ? 0 : g->k[K_mig_max].v; RET(0); }
EXPORT nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t d, unsigned i, nvmlDevice_t *o) {
    BEGIN(d); NEED(o); if (m || g->k[K_mig_mode].err) RET(E_NOSUPP);
    if (i >= MAXMIG || g->k[K_mig_mode].v != 1 || !g->mig[i].present) RET(E_NOTFOUND);
    *o = (nvmlDevice_t)&H[gi_][i + 1]; RET(0);
}
EXPORT nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t d, unsigned *o) { BEGIN(d); NEED(o); *o = m != NULL; RET(0); }
EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t d, unsigned *o) { BEGIN(d); NEED(o); if (!m) RET(E_NOSUPP); *o = m->gi; RET(0); }
EXPORT nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t d, unsigned *o) { BEGIN(d); NEED(o); if (!m) RET(E_NOSUPP); *o = m->ci; RET(0); }
EXPORT nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t d, nvmlDevice_t *o) { BEGIN(d); NEED(o); if (!m) RET(E_NOSUPP); *o = (nvmlDevice_t)&H[gi_][0]; RET(0); }
EXPORT nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t d, nvmlDeviceAttributes_t *o) {
    BEGIN(d); NEED(o); if (!m) RET(E_NOSUPP); memset(o, 0, sizeof *o);
    o->multiprocessorCount = m->sms; o->gpuInstanceSliceCount = o->computeInstanceSliceCount = m->slices; o->memorySizeMB = m->total.v >> 20; RET(0);
}
/* ---- processes ----------------------------------------------------------------------------- */
static int wanted(const struct proc *p, const struct mig *m, const char *types) {
    return strchr(types, p->type) && (!m || (p->gi == m->gi && p->ci == m->ci));
}
/* Entry sizes: v1 16, v2 and v3 24, the short-lived v3 32. Only the caller's stride may be written. */
static int list(const struct gpu *g, const struct mig *m, const char *types, unsigned *n, char *o, size_t stride) {
    if (!n) return E_ARG;
    if (g->k[K_proc_list].err) return g->k[K_proc_list].err;
    unsigned have = 0, cap = *n;
    for (int i = 0; i < g->nproc; i++) have += wanted(&g->proc[i], m, types);
    *n = have;
    if (!have) return 0;
    if (have > cap || !o) return E_SIZE;
    for (int i = 0; i < g->nproc; i++) {
        const struct proc *p = &g->proc[i]; if (!wanted(p, m, types)) continue;
        nvmlProcessDetail_v1_t e; memset(&e, 0, sizeof e);
        e.pid = p->pid; e.usedGpuMemory = p->mem; e.gpuInstanceId = p->gi; e.computeInstanceId = p->ci;
        memcpy(o, &e, stride); o += stride;
    }
    return 0;
}
#ifdef FAKE_NVML_R535_54
#define V3STRIDE 32
#else
#define V3STRIDE 24
#endif
#define LISTFN(base, types) \
    EXPORT nvmlReturn_t base(nvmlDevice_t d, unsigned *n, nvmlProcessInfo_v1_t *o) { BEGIN(d); RET(list(g, m, types, n, (char *)o, 16)); } \
    EXPORT nvmlReturn_t base##_v2(nvmlDevice_t d, unsigned *n, nvmlProcessInfo_v2_t *o) { BEGIN(d); RET(list(g, m, types, n, (char *)o, 24)); }
#define LISTFN3(base, types) \
    EXPORT nvmlReturn_t base##_v3(nvmlDevice_t d, unsigned *n, nvmlProcessInfo_t *o) { BEGIN(d); RET(list(g, m, types, n, (char *)o, V3STRIDE)); }
LISTFN(nvmlDeviceGetComputeRunningProcesses, "C")
LISTFN(nvmlDeviceGetGraphicsRunningProcesses, "G")
LISTFN(nvmlDeviceGetMPSComputeRunningProcesses, "M")
#ifndef FAKE_NVML_R470
LISTFN3(nvmlDeviceGetComputeRunningProcesses, "C")
LISTFN3(nvmlDeviceGetGraphicsRunningProcesses, "G")
LISTFN3(nvmlDeviceGetMPSComputeRunningProcesses, "M")
#endif
#ifndef FAKE_NVML_R470 /* confidential computing calls came with R535 */
EXPORT nvmlReturn_t nvmlDeviceGetConfComputeMemSizeInfo(nvmlDevice_t d, nvmlConfComputeMemSizeInfo_t *o) { BEGIN(d); NEED(o); RET(E_NOSUPP); }
#endif
/* One sample for each process that had non-zero use since the caller's timestamp. The size query
   answers with the ring's capacity (100), not with the number of processes; no sample: NOT_FOUND. */
EXPORT nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t d, nvmlProcessUtilizationSample_t *o, unsigned *n, unsigned long long seen_us) {
    BEGIN(d); NEED(n);
    if (m || g->k[K_mig_mode].v == 1) RET(E_NOSUPP);
    if (g->k[K_proc_util].err) RET(g->k[K_proc_util].err);
    if (!o) { *n = 100; RET(E_SIZE); }
    unsigned long long ts = now_ns(CLOCK_REALTIME) / 1000 - 50000; unsigned k = 0;
    for (int i = 0; i < g->nproc && ts > seen_us; i++) {
        const struct proc *p = &g->proc[i]; if (!(p->sm | p->fb | p->enc | p->dec)) continue;
        if (k >= *n) RET(E_SIZE);
        o[k].pid = p->pid; o[k].timeStamp = ts; o[k].smUtil = p->sm; o[k].memUtil = p->fb; o[k].encUtil = p->enc; o[k++].decUtil = p->dec;
    }
    *n = k; RET(k ? 0 : E_NOTFOUND);
}
#if !defined FAKE_NVML_R470 && !defined FAKE_NVML_R535_54
EXPORT nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t d, nvmlProcessesUtilizationInfo_t *o) {
    BEGIN(d); NEED(o); if (o->version != 0x01000018u) RET(E_VERSION);
    if (m || g->k[K_mig_mode].v == 1) RET(E_NOSUPP);
    if (g->k[K_proc_util].err) RET(g->k[K_proc_util].err);
    if (!o->procUtilArray) { o->processSamplesCount = 100; RET(E_SIZE); }
    unsigned long long ts = now_ns(CLOCK_REALTIME) / 1000 - 50000; unsigned k = 0;
    for (int i = 0; i < g->nproc && ts > o->lastSeenTimeStamp; i++) {
        const struct proc *p = &g->proc[i]; if (!(p->sm | p->fb | p->enc | p->dec)) continue;
        if (k >= o->processSamplesCount) RET(E_SIZE);
        nvmlProcessUtilizationInfo_v1_t *u = &o->procUtilArray[k++]; memset(u, 0, sizeof *u);
        u->timeStamp = ts; u->pid = p->pid; u->smUtil = p->sm; u->memUtil = p->fb; u->encUtil = p->enc; u->decUtil = p->dec;
    }
    o->processSamplesCount = k; RET(k ? 0 : E_NOTFOUND);
}
EXPORT nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t d, nvmlProcessDetailList_t *o) {
    static const char *const T_[] = {"C", "G", "M", "CGM"};
    BEGIN(d); NEED(o); if (o->version != 0x01000018u) RET(E_VERSION);
    if (o->mode > 3) RET(E_ARG);
    RET(list(g, m, T_[o->mode], &o->numProcArrayEntries, (char *)o->procArray, 32));
}
#endif
