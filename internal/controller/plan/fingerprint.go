package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// Fingerprint is the same for tasks that failed in the same way: 16 hex digits of a hash of the last attempt's reason, exit
// code and normalised message.
func Fingerprint(task string, last v1alpha1.AttemptRecord) string {
	code := "none"
	if last.ExitCode != nil {
		code = fmt.Sprint(*last.ExitCode)
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{last.Reason, code, normalise(task, last)}, "\x00")))
	return hex.EncodeToString(sum[:8])
}

// individual is what differs between two messages about the same failure: UIDs and hashes, then numbers of any kind, as in
// times, addresses, sizes and counters.
var individual = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b(0x)?[0-9a-f]*[0-9][0-9a-f]{7,}\b|[0-9]+(\.[0-9]+)*`)

// normalise takes out of a message what differs from one task to the next.
func normalise(task string, last v1alpha1.AttemptRecord) string {
	message := strings.ToLower(last.Message)
	// Longest first: a Pod's name begins with its task's.
	for _, name := range []string{last.PodName, last.NodeName, task} {
		if len(name) > 1 { // of one letter there may be many that name nothing
			message = strings.ReplaceAll(message, strings.ToLower(name), "@")
		}
	}
	return strings.Join(strings.Fields(individual.ReplaceAllString(message, "#")), " ")
}

// knownReasons are the reasons that metrics tell apart: those of the controller, of the agent, and of the kubelet and the
// control plane when they end a Pod. A worker or a cluster may give any other.
var knownReasons = []string{
	ReasonLeaseExpired, ReasonLeaseDeleted, ReasonWorkerVanished, ReasonSubmissionLost, ReasonPodDeleted, ReasonNodeLost,
	ReasonPodFailed, ReasonStartFailed, ReasonClaimRefused, ReasonPodNameTaken, ReasonRevoked, ReasonUnspecified, ReasonEffectFound, ReasonNoEffect,
	ReasonStartTimeout, ReasonPodInvalid, ReasonInvalidImageName, ReasonIdempotencyConflict, ReasonKeyRejected, ReasonAttached, ReasonVerificationFailed,
	fencing.ReasonCompleted, fencing.ReasonNonZeroExit, fencing.ReasonSignaled, fencing.ReasonOOMKilled, fencing.ReasonCommandNotRunnable,
	fencing.ReasonResultTooLarge, fencing.ReasonResultInvalid, fencing.ReasonTerminated, fencing.ReasonDeadlineExceeded,
	fencing.ReasonCancelled, fencing.ReasonSuspended, fencing.ReasonDrained, fencing.ReasonSuperseded, fencing.ReasonStopped, fencing.ReasonProcessesLeft,
	fencing.ReasonRenewalFailed, fencing.ReasonMalformedSubmission, fencing.ReasonTokenMismatch,
	fencing.ReasonHeartbeatMissed, fencing.ReasonWorkerFailed,
	"Evicted", "PreemptionByScheduler", "EvictionByEvictionAPI", "DeletionByTaintManager", "DeletionByPodGC", "TerminationByKubelet",
}

// reasonOther stands for every reason that metrics do not tell apart.
const reasonOther = "Other"

// knownReason folds a reason into a closed list.
func knownReason(reason string) string {
	if slices.Contains(knownReasons, reason) {
		return reason
	}
	return reasonOther
}
