// Package env names what a worker finds in its container: the environment of the child, the agent's own settings, and the
// files. It holds constants only and imports nothing, so that the agent stays small.
package env

// Variables of the child. They are the stable interface of a worker; see docs/worker.md.
const (
	Task           = "LEASEHOLD_TASK"                // name of the LeasedTask
	Namespace      = "LEASEHOLD_NAMESPACE"           // its namespace
	Attempt        = "LEASEHOLD_ATTEMPT"             // 1-based number of this attempt or probe
	FencingToken   = "LEASEHOLD_FENCING_TOKEN"       // a number to pass to stores, not a credential
	IdempotencyKey = "LEASEHOLD_IDEMPOTENCY_KEY"     // the same for every attempt and replay
	ProbeAttempt   = "LEASEHOLD_PROBE_ATTEMPT"       // in a probe only: number of the attempt that it probes for
	ProbeToken     = "LEASEHOLD_PROBE_FENCING_TOKEN" // in a probe only: that attempt's token
	PayloadFile    = "LEASEHOLD_PAYLOAD_FILE"        // path of the payload, byte for byte; an empty file if there is none
	CancelFile     = "LEASEHOLD_CANCEL_FILE"         // path of a file that appears, holding the reason, before the worker is told to stop
	ResultFile     = "LEASEHOLD_RESULT_FILE"         // path to write the result to
	CheckpointFile = "LEASEHOLD_CHECKPOINT_FILE"     // path of what the attempt before left, and to write what the next one is to find
	Socket         = "LEASEHOLD_SOCKET"              // path of the agent's Unix socket
	Deadline       = "LEASEHOLD_DEADLINE"            // RFC 3339 time at which the worker will be told to stop; empty: its time is not bounded
)

// Variables of the agent. They begin with AgentPrefix and are not passed on to the child.
const (
	AgentPrefix           = "LEASEHOLD_AGENT_"
	AgentLease            = AgentPrefix + "LEASE"
	AgentDurationSeconds  = AgentPrefix + "LEASE_DURATION_SECONDS"
	AgentPodName          = AgentPrefix + "POD_NAME"
	AgentPodUID           = AgentPrefix + "POD_UID"
	AgentNodeName         = AgentPrefix + "NODE_NAME"
	AgentStopGrace        = AgentPrefix + "STOP_GRACE_SECONDS"
	AgentAttemptSeconds   = AgentPrefix + "ATTEMPT_SECONDS"    // 0: no bound
	AgentTaskDeadline     = AgentPrefix + "TASK_DEADLINE"      // RFC 3339; empty: no bound
	AgentOnRenewalFailure = AgentPrefix + "ON_RENEWAL_FAILURE" // Fence or Continue
	AgentHeartbeat        = AgentPrefix + "HEARTBEAT"          // Process or Application
)

// Files and directories in the worker container.
const (
	BinDir         = "/leasehold/bin"   // the agent; read-only
	AgentPath      = BinDir + "/agent"  //
	RunDir         = "/leasehold/run"   // writable, one per attempt
	ResultPath     = RunDir + "/result" //
	CancelPath     = RunDir + "/cancel" //
	CheckpointPath = RunDir + "/checkpoint"
	SocketPath     = RunDir + "/agent.sock"
	PayloadDir     = "/leasehold/payload" // read-only
	PayloadPath    = PayloadDir + "/payload"
	APIDir         = "/leasehold/api" // the Pod's bound token and the API server's certificate; read-only
	TokenPath      = APIDir + "/token"
	CAPath         = APIDir + "/ca.crt"
	TerminationLog = "/dev/termination-log"
)
