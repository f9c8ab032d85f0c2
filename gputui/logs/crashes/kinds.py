"""Error messages: their kind, their one-line form for display, and their normalized form for comparison."""

from __future__ import annotations

import re

from gputui.core.job import CrashKind
from gputui.core.regex import lazy_regex

from .lines import CleanLine
from .tracebacks import Trace

# Kinds


_CLASS = lazy_regex(r"(?:[\w<>]{1,80}\.){0,12}(\w{1,120})(?:\([\w.]{0,80}\))?(?::|$)")
_ERRNO = lazy_regex(r"\[Errno (-?\d{1,4})\]|\berrno ?[=:] ?(\d{1,4})\b")

_CLASSES = {
    CrashKind.NOT_FOUND: "FileNotFoundError ModuleNotFoundError EnvironmentNameNotFound EnvironmentLocationNotFound"
    " PackagesNotFoundError ClassNotFoundException NoClassDefFoundError NoSuchFileException"
    " ResourceNotFoundError FileNotFoundException PackageNotFoundError ExecutableNotFound",
    CrashKind.PERMISSION: "PermissionError AccessDeniedException",
    CrashKind.OOM_HOST: "MemoryError _ArrayMemoryError",
    CrashKind.INTERRUPTED: "KeyboardInterrupt",
    CrashKind.SYNTAX: "SyntaxError IndentationError TabError",
    CrashKind.LIMIT: "BlockingIOError",
    CrashKind.SIGNAL: "ProcessExitedException BrokenProcessPool TerminatedWorkerError",
    CrashKind.NETWORK: "ConnectionError ConnectionRefusedError ConnectionResetError ConnectionAbortedError SSLError"
    " SSLCertVerificationError HTTPError URLError gaierror ConnectTimeout ReadTimeout ConnectionTimeout ProxyError"
    " RemoteDisconnected IncompleteRead ChunkedEncodingError MaxRetryError NewConnectionError HfHubHTTPError"
    " RepositoryNotFoundError RevisionNotFoundError EntryNotFoundError GatedRepoError LocalEntryNotFoundError CommError"
    " OfflineModeIsEnabled DistNetworkError ContentDecodingError UnknownHostException ConnectException InvalidSchema"
    " ClientConnectorError AuthenticationError ConnectError RemoteProtocolError NameResolutionError"
    " SocketTimeoutException NoRouteToHostException ServerDisconnectedError EndpointConnectionError NoCredentialsError"
    " RendezvousConnectionError RendezvousTimeoutError APIConnectionError",
    CrashKind.NCCL: "DistBackendError DistStoreError",
    CrashKind.USAGE: "OverrideParseException ConfigCompositionException NoSuchOption BadParameter UsageError"
    " MissingConfigException",
}
_KIND_OF_CLASS = {name: kind for kind, names in _CLASSES.items() for name in names.split()}

_KIND_OF_ERRNO = {
    **dict.fromkeys((5, 28, 30, 116, 122), CrashKind.DISK),
    **dict.fromkeys((1, 13), CrashKind.PERMISSION),
    **dict.fromkeys((11, 23, 24, 27), CrashKind.LIMIT),
    **dict.fromkeys((-5, -3, -2, 97, 98, 99, 100, 101, 104, 110, 111, 112, 113), CrashKind.NETWORK),
    2: CrashKind.NOT_FOUND,
    8: CrashKind.NOT_EXECUTABLE,
    12: CrashKind.OOM_HOST,
}

# The first match decides, so the most specific words come first.
_WORDS = tuple(
    (kind, re.compile(words))
    for kind, words in (
        (CrashKind.TIME_LIMIT,
         r"DUE TO TIME LIMIT|walltime .{1,40} exceeded|TERM_RUNLIMIT|job killed: walltime"
         r"|exceeded .{0,20}(?:wall|run) ?time"),
        (CrashKind.OOM_GPU,
         r"(?:torch|cupy)[\w.]{0,60}\.OutOfMemoryError"
         r"|(?:CUDA|HIP|XPU|MPS|CUDA driver) (?:error: |backend )?out of memory|cudaErrorMemoryAllocation"
         r"|CUDA_ERROR_OUT_OF_MEMORY|hipErrorOutOfMemory|ResourceExhaustedError|[Oo]ut of GPU memory"
         r"|OOM when allocating tensor|RESOURCE_EXHAUSTED: (?:[^:]{1,80}: )?(?:Out of memory|Failed to allocate)"
         r"|out of (?:device|GPU|video) memory|std::bad_alloc: (?:cuda|out_of_memory: CUDA)"),
        (CrashKind.OOM_HOST,
         r"oom[-_ ]?kill|OOM[- _]?[Kk]ill|Out of memory: Kill|Memory cgroup out of memory"
         r"|[Ee]xceeded (?:\w{1,12} ){0,3}memory|bad_alloc|[Cc]annot allocate (?:memory|vector)"
         r"|can't allocate memory|java\.lang\.OutOfMemoryError|heap out of memory"
         r"|[Ii]nsufficient (?:virtual )?memory|Out [Oo]f [Mm]emory\b|virtual memory exhausted|OutOfMemoryError\(\)"
         r"|not enough memory|exceeds maximum array size|(?<!shared )memory limit|low on memory"
         r"|\bMemoryError\b|would exceed memory|Unable to allocate"),
        (CrashKind.NCCL,
         r"\bNCCL\b|\bnccl[A-Z]\w{2,30}|ProcessGroup(?:NCCL|Gloo)|[Cc]ollective operation|gloo/|RCCL"
         r"|store based barrier|process group .{0,40}time"),
        (CrashKind.LIMIT,
         r"(?:insufficient|out of|unable to open) shared memory|\(shm\)|/dev/shm|[Tt]oo many open files"
         r"|can't start new thread|Resource temporarily unavailable|[Ff]ile size limit|CPU time limit|[Cc]annot fork"
         r"|unable to (?:fork|create (?:new )?(?:native )?thread)|pthread_create failed|items of ancdata"
         r"|[Nn]o child processes left|ulimit|inotify watch"),
        (CrashKind.DISK,
         r"No space left on device|[Dd]isk quota exceeded|[Qq]uota exceeded on|Read-only file system"
         r"|Input/output error|Stale (?:NFS )?file handle|disk I/O error|[Dd]isk (?:is )?full"),
        (CrashKind.NOT_FOUND, r"cannot open shared object file|symbol lookup error|version `[^']{1,60}' not found"),
        (CrashKind.CUDA,
         r"\b(?:CUDA|HIP) (?:error|unknown error|driver|initialization|failure|call failed)|CUDA_ERROR|CudaAPIError"
         r"|cudadrv|cudaError|hipError|(?:CUDNN|CUBLAS|CUSOLVER|CUFFT|CUSPARSE|CURAND)_"
         r"|\bcu(?:DNN|BLAS|SOLVER|FFT) (?:error|status|fail|version)|NVIDIA driver on your|no NVIDIA driver"
         r"|NVIDIA-SMI has failed|NVRM: Xid|initialize NVML|nvml error|NVMLError|nvidia-container-cli|No CUDA GPUs"
         r"|CUDA-capable device|compiled with CUDA|on a CUDA device|device-side assert|\[\[gpu\]\]"
         r"|unable to find an engine|no kernel image|illegal memory access|No (?:visible )?GPU"
         r"|[Mm]emory access fault by GPU"
         r"|\.cuh?:\d+:.{1,300}Assertion"),
        (CrashKind.NETWORK,
         r"resolve host|Name or service not known|[Nn]ame resolution|Max retries exceeded"
         r"|Connection (?:refused|timed out)|Network is unreachable|EADDRINUSE|ECONNREFUSED|ENOTFOUND|ETIMEDOUT"
         r"|[Aa]ddress already in use|No route to host|CERTIFICATE_VERIFY_FAILED"
         r"|[Ss][Ss][Ll] (?:certificate|error|routines)|HTTP Error \d|(?:Client|Server) Error: .{1,200} for url"
         r"|Repository Not Found|couldn't connect to|[Hh]ost key verification|Could not read from remote|No API key"
         r"|unable to access 'http|Permission denied \(publickey|[Cc]onnection (?:reset|closed) by"
         r"|Failed to connect to|HTTP (?:status |response )?(?:code )?[45]\d\d\b|[Nn]ot logged in|gated repo|curl: \("
         r"|gnutls_handshake|Unauthorized|requested URL returned error|Authentication failed"
         r"|[Cc]onnection (?:error|broken|unexpectedly closed)|toomanyrequests"),
        (CrashKind.SIGNAL,
         r"killed by signal|got signal: \d|terminated (?:with|by) signal|died with <Signals|[Ss]egmentation fault"
         r"|Bus error|SIG(?:SEGV|BUS|KILL|ABRT)|exited on signal|(?:exit|return) ?(?:code|status)(?: ?[:=])? -\d"
         r"|terminated abruptly"
         r"|Illegal instruction|core dumped|[Ff]loating point exception|\d Killed\b|exited unexpectedly"
         r"|signal: killed"),
        (CrashKind.NOT_EXECUTABLE, r"cannot execute binary file|Exec format error"),
        (CrashKind.NOT_FOUND,
         r"[Nn]o such file or directory|command not found|: not found$|[Nn]o module named|required file not found"
         r"|bad interpreter|Could not find (?:conda|a version|or load)|no package called|No matching distribution"
         r"|not a git repository|repository '.{1,300}' not found|[Cc](?:annot|an't|ould not) find\b"
         r"|[Cc]an't locate \S{1,80}\.pm|Cannot find module|ENOENT|Package \S{1,80} not found in"
         r"|Unable to find image|manifest unknown|No rule to make target|unable to locate"
         r"|Can't load (?:the )?(?:tokenizer|model|config\w*|feature|weights)|not a valid model identifier"
         r"|[Nn]o such (?:command|container|image|environment)|Unable to locate|[Ff]ile (?:not found|does not exist)"
         r"|(?:file|path) '?[^\s']{0,200}[./][^\s']{0,200}'? (?:not found|does not exist)|NotFoundError: "
         r"|pathspec '.{1,200}' did not match|[Uu]nable to open file|Undefined (?:references?|symbols?)"),
        (CrashKind.PERMISSION,
         r"[Pp]ermission denied|Operation not permitted|[Aa]ccess (?:is )?denied|EACCES|EPERM"
         r"|not (?:allowed|permitted) to access"),
        (CrashKind.SYNTAX,
         r"[Ss]yntax error\b|unexpected EOF while looking|[Uu]nterminated quoted|parse error near"
         r"|unexpected end of file"),
        (CrashKind.USAGE,
         r"error: argument -|unrecognized (?:arguments?|option)|[Nn]o such option|invalid option"
         r"|[Uu]nknown (?:command[- ]line )?(?:flag|option|argument)|unexpected argument '-"
         r"|Could not consume arg|invalid choice:|arguments are required"
         r"|Missing (?:option|argument|parameter|command)|Could not override|Got unexpected extra argument"
         r"|[Ii]nvalid value for '|ambiguous option|expected (?:one|at least one) argument|illegal option"
         r"|option requires an argument|Could not append to config|mismatched input"),
        (CrashKind.INTERRUPTED,
         r"CANCELLED AT|DUE TO PREEMPTION|\bpreempted\b|\bKeyboardInterrupt\b|[Oo]peration terminated by user"
         r"|Interrupted by"),
    )
)  # fmt: skip


def kind_in(text: str) -> CrashKind | None:
    """Return the kind of error that a message describes, or None if the message only says that something is wrong."""
    match = _CLASS.match(text)
    name = match[1] if match else ""
    if kind := _KIND_OF_CLASS.get(name):
        # A process that reports the end of another process may also report the reason.
        words = _WORDS[:3] if kind is CrashKind.SIGNAL else ()
        return next((narrower for narrower, pattern in words if pattern.search(text)), kind)
    if (number := _ERRNO.search(text)) and (kind := _KIND_OF_ERRNO.get(int(number[1] or number[2]))):
        return kind
    return next((kind for kind, words in _WORDS if words.search(text)), None)


# Messages of several lines


# First lines that only announce what follows below.
_PREAMBLE = lazy_regex(r"while (?:scanning|parsing|constructing)\b|.{0,1000}:$")
_ONLY_COUNTS = lazy_regex(r"\d{1,6} (?:\w{1,30} )?errors? (?:for|in|found)\b.{0,200}$")
_TELLS = lazy_regex(r"OOM when allocating|Last error:$")
_RULE = " \t=-~^*#"
_ASSERTION = lazy_regex(r".{0,200}?\.cuh?:\d+: .{0,400}Assertion .{1,300} failed")
_GENERIC_ASSERT = "device-side assert"


def named(trace: Trace, lines: list[CleanLine]) -> str:
    """Return an exception as a single line."""
    text = trace.text
    if not trace.said and trace.statement.startswith("assert"):
        return f"{text.rstrip(': ')}: {trace.statement}"
    if _GENERIC_ASSERT in text and (above := device_assertion(lines)):
        return f"{text}: {above[above.index('Assertion') :]}"
    below = _below(trace)
    return f"{text} {below}" if below else text.rstrip(": ")


def device_assertion(lines: list[CleanLine]) -> str:
    """Return the failed assertion of a GPU kernel. Each thread prints the assertion, long before the exception."""
    for line in reversed(lines):
        if "Assertion" in line.text and _ASSERTION.match(line.text):
            return line.text.strip()
    return ""


def _below(trace: Trace) -> str:
    block = [text for text in trace.block if text.strip(_RULE)]
    for index, text in enumerate(block):
        if _TELLS.match(text):
            return " ".join(block[index : index + 2]) if text.endswith(":") else text
    if _ONLY_COUNTS.match(trace.said):
        return " ".join(block[:2])
    if not trace.said:
        return " ".join(block[: 2 if block[:1] and block[0].endswith(":") else 1])
    if block and _PREAMBLE.match(trace.said):
        return next((text for text in block if not text.endswith(":")), block[0])
    return ""


# Signatures


LONGEST_SIGNATURE = 200
LONGEST_MESSAGE = 300

_UUID = lazy_regex(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b")
_ADDRESS = lazy_regex(r"\b0x[0-9a-fA-F]++")
_DIGEST = lazy_regex(r"\b(?=[a-f]*+[0-9])[0-9a-f]{12,64}\b")
_TIME = lazy_regex(
    r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)?"
    r"|\b\d{1,3}:\d\d:\d\d(?:[.,]\d{1,9})?\b"
)
_SCRATCH = lazy_regex(r"(?<![\w.])(/(?:var/tmp|tmp|dev/shm)/)([^\s'\"`,;:()\[\]]++)")
_SPOKEN_NAME = lazy_regex(r"[a-zA-Z_]+(?:\.[a-z]{1,5})?")
_NUMBER = lazy_regex(
    # Codes say what happened, so they are kept, unlike sizes and counts.
    r"(?P<kept>\b(?:Errno|HTTP(?: Error)?|status code|signal|exit code|code)[ =:]{1,2}-?\d++)"
    r"|(?<![\w.'\"-])-?\d++(?:[.,]\d++)*+(?:[eE][+-]?\d++)?(?:x\d++)*+(?:\s?(?:[KMGTP]i?[Bb]|bytes|ms|s)\b|(?![\w'\"]))"
)
_SHAPE = lazy_regex(r"\bN(?:, ?N)*+,?(?=[)\]}])")
_TOKEN = lazy_regex(r"[^\s'\"`,;:()\[\]<>]++")
_EXTENSION = lazy_regex(r"\.[A-Za-z][A-Za-z0-9]{0,5}$")
_FILE_NUMBER = lazy_regex(r"(?<![A-Za-z0-9.])\d++(?![A-Za-z])|(?<=[A-Za-z])\d{3,}")
_REQUEST = lazy_regex(r"\(?[Rr]equest[ _-]?[Ii][Dd]:? ?[\w=;.:-]++\)?")
_RANK = lazy_regex(r"\b([Rr]ank|GPU|gpu|cuda:?|worker|pid) ?\d++\b")
_THREAD = lazy_regex(r"\bthread '[^']{1,60}'(?: \(\d++\))?")
_PLACE = lazy_regex(r" \((/[^()\s]{1,300}/)([\w.-]{1,100}\.\w{1,5})\)$")


def alike(message: str) -> str:
    """Return a message with its addresses, sizes, times, pids and temporary names replaced, cut to 200 characters."""
    message = _REQUEST.sub("", message)
    message = _UUID.sub("<uuid>", message)
    message = _THREAD.sub("thread", message)
    message = _TIME.sub("<time>", message)
    message = _SCRATCH.sub(_scratch, message)
    message = _PLACE.sub(r" (\2)", message)
    message = _TOKEN.sub(_file, message)
    message = _ADDRESS.sub("0x…", message)
    message = _DIGEST.sub("<hex>", message)
    message = _RANK.sub(r"\1 N", message)
    message = _NUMBER.sub(lambda match: match["kept"] or "N", message)
    message = _SHAPE.sub("N", message)
    return shortened(" ".join(message.split()))


def shortened(message: str, longest: int = LONGEST_SIGNATURE) -> str:
    if len(message) <= longest:
        return message
    return message[: longest - 1].rstrip() + "…"


def _scratch(match: re.Match[str]) -> str:
    # Directories under /tmp have a new name in each run, but most files do not.
    directory, _, name = match[2].rpartition("/")
    made_up = name.startswith("tmp") or (not directory and not _SPOKEN_NAME.fullmatch(name))
    return match[1] + ("…/" if directory else "") + ("…" if made_up else name)


def _file(match: re.Match[str]) -> str:
    # Separate numbers in file names are seeds, steps or shards. In names of models and versions, they follow a letter.
    name = match[0]
    if len(name) < 3 or not ("/" in name or _EXTENSION.search(name, max(0, len(name) - 7))):
        return name
    return _FILE_NUMBER.sub("N", name)
