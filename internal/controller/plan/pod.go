package plan

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/leasehold-io/leasehold/api/env"
	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
)

// AgentImage says where the agent comes from.
type AgentImage struct {
	Name        string
	PullPolicy  corev1.PullPolicy
	PullSecrets []corev1.LocalObjectReference
}

const (
	binVolume     = "leasehold-bin"
	runVolume     = "leasehold-run"
	payloadVolume = "leasehold-payload"
	apiVolume     = "leasehold-api"
	installer     = "leasehold-agent"

	// submitReserve is what a Pod's termination grace has beyond the worker's: the time to kill and submit.
	submitReserve = 5 * time.Second
	// tokenSeconds is how long a bound token is valid; the kubelet renews it.
	tokenSeconds = 3600
	// maxName keeps a name within a DNS label: a Pod's becomes its host name.
	maxName = 63
)

// PodName names an attempt's Pod: task, attempt, random suffix. Dots become dashes, because the name becomes a host name;
// the suffix tells apart what shortening makes equal.
func PodName(task string, attempt int32, suffix string) string {
	return Name(task, fmt.Sprintf("-%d-%s", attempt, suffix))
}

// Name is a DNS label made of an object's name, shortened if it must be, and a tail that makes it one of its kind.
func Name(of, tail string) string {
	head := strings.ReplaceAll(of, ".", "-")
	if limit := maxName - len(tail); len(head) > limit {
		head = strings.TrimRight(head[:limit], "-")
	}
	return head + tail
}

// Pod renders the Pod of the attempt or probe that the task's status records.
func Pod(task *v1alpha1.LeasedTask, agent AgentImage) *corev1.Pod {
	isProbe := task.Status.Holder.ProbeFor > 0
	template, worker := task.HolderTemplate().DeepCopy(), task.Spec.HolderWorker(isProbe)
	pod := &corev1.Pod{Spec: template.Spec}
	pod.ObjectMeta = metav1.ObjectMeta{
		Namespace:       task.Namespace,
		Name:            task.Status.Holder.PodName,
		Labels:          with(template.Labels, v1alpha1.TaskLabel, string(task.UID)),
		Annotations:     with(template.Annotations, v1alpha1.TaskNameAnnotation, task.Name),
		Finalizers:      template.Finalizers,
		OwnerReferences: []metav1.OwnerReference{OwnerOf(task)},
	}
	pod.Annotations[v1alpha1.AttemptAnnotation] = fmt.Sprint(task.Status.Attempt)
	pod.Annotations[v1alpha1.TokenAnnotation] = fmt.Sprint(task.Status.FencingToken)
	if delete(pod.Annotations, v1alpha1.ProbeForAnnotation); isProbe { // by it the worker's container is found: see isProbePod
		pod.Annotations[v1alpha1.ProbeForAnnotation] = fmt.Sprint(task.Status.Holder.ProbeFor)
	}
	if !task.Spec.HasPayloadSource() {
		pod.Annotations[v1alpha1.PayloadAnnotation] = ptr.Deref(task.Spec.Payload, "")
	}
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	pod.Spec.TerminationGracePeriodSeconds = new(int64((task.Spec.StopGrace() + submitReserve) / time.Second))
	pod.Spec.Volumes = append(pod.Spec.Volumes, volumes(&task.Spec)...)
	pod.Spec.InitContainers = append([]corev1.Container{installContainer(agent, worker)}, pod.Spec.InitContainers...)
	pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, agent.PullSecrets...)
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; worker != nil && c.Name == worker.Name {
			wrap(c, task)
		}
	}
	return pod
}

// OwnerOf makes the task the controller of what belongs to it. It does not block the task's deletion: no kind of ours
// may hang a deletion.
func OwnerOf(task *v1alpha1.LeasedTask) metav1.OwnerReference {
	owner := *metav1.NewControllerRef(task, v1alpha1.GroupVersion.WithKind("LeasedTask"))
	owner.BlockOwnerDeletion = nil
	return owner
}

// wrap makes the agent the worker container's command, and the template's command its child.
func wrap(c *corev1.Container, task *v1alpha1.LeasedTask) {
	c.Command = append([]string{env.AgentPath, "--"}, c.Command...)
	c.TerminationMessagePath = env.TerminationLog
	c.TerminationMessagePolicy = corev1.TerminationMessageReadFile
	c.VolumeMounts = append(c.VolumeMounts,
		corev1.VolumeMount{Name: binVolume, MountPath: env.BinDir, ReadOnly: true},
		corev1.VolumeMount{Name: runVolume, MountPath: env.RunDir},
		corev1.VolumeMount{Name: payloadVolume, MountPath: env.PayloadDir, ReadOnly: true},
		corev1.VolumeMount{Name: apiVolume, MountPath: env.APIDir, ReadOnly: true})
	c.Env = append(c.Env,
		literal(env.Task, task.Name),
		literal(env.Namespace, task.Namespace),
		literal(env.Attempt, fmt.Sprint(task.Status.Attempt)),
		literal(env.FencingToken, fmt.Sprint(task.Status.FencingToken)),
		literal(env.IdempotencyKey, task.IdempotencyKey()),
		literal(env.PayloadFile, env.PayloadPath),
		literal(env.ResultFile, env.ResultPath),
		literal(env.CancelFile, env.CancelPath),
		literal(env.CheckpointFile, env.CheckpointPath),
		literal(env.Socket, env.SocketPath),
		literal(env.AgentLease, task.Status.LeaseName),
		literal(env.AgentDurationSeconds, fmt.Sprint(int64(task.Spec.LeaseDuration()/time.Second))),
		literal(env.AgentStopGrace, fmt.Sprint(int64(task.Spec.StopGrace()/time.Second))),
		literal(env.AgentAttemptSeconds, fmt.Sprint(int64(task.Spec.AttemptLimit()/time.Second))),
		literal(env.AgentOnRenewalFailure, string(task.Spec.OnRenewalFailure())),
		literal(env.AgentHeartbeat, string(task.Spec.Heartbeat())),
		field(env.AgentPodName, "metadata.name"),
		field(env.AgentPodUID, "metadata.uid"),
		field(env.AgentNodeName, "spec.nodeName"))
	if doubt := task.Status.Uncertain; task.Status.Holder.ProbeFor > 0 {
		c.Env = append(c.Env, literal(env.ProbeAttempt, fmt.Sprint(doubt.Attempt)), literal(env.ProbeToken, fmt.Sprint(doubt.FencingToken)))
	}
	if deadline := task.Status.Deadline; deadline != nil {
		c.Env = append(c.Env, literal(env.AgentTaskDeadline, deadline.UTC().Format(time.RFC3339)))
	}
}

// installContainer copies the agent into the Pod. It satisfies PodSecurity "restricted" whatever the template does. It ends before the
// worker starts, and what it may use is what the worker may: so the Pod asks for no more than its template, stays in the template's
// class of service, and passes what limits of the namespace the worker passes.
func installContainer(agent AgentImage, worker *corev1.Container) corev1.Container {
	c := corev1.Container{
		Name:            installer,
		Image:           agent.Name,
		ImagePullPolicy: agent.PullPolicy,
		Command:         []string{"/agent", "install", env.AgentPath},
		VolumeMounts:    []corev1.VolumeMount{{Name: binVolume, MountPath: env.BinDir}},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false),
			ReadOnlyRootFilesystem:   new(true),
			RunAsNonRoot:             new(true),
			RunAsUser:                new(int64(65532)),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}
	if worker != nil {
		c.Resources = corev1.ResourceRequirements{Requests: basic(worker.Resources.Requests), Limits: basic(worker.Resources.Limits)}
	}
	return c
}

// basic is what every container needs some of: no devices, which are handed out, and no huge pages.
func basic(all corev1.ResourceList) (some corev1.ResourceList) {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		if amount, isSet := all[name]; isSet {
			if some == nil {
				some = corev1.ResourceList{}
			}
			some[name] = amount.DeepCopy()
		}
	}
	return some
}

func volumes(spec *v1alpha1.LeasedTaskSpec) []corev1.Volume {
	limit := resource.MustParse("64Mi")
	return []corev1.Volume{
		{Name: binVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &limit}}},
		{Name: runVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &limit}}},
		{Name: payloadVolume, VolumeSource: payload(spec)},
		{Name: apiVolume, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: new(int64(tokenSeconds))}},
				{ConfigMap: &corev1.ConfigMapProjection{
					LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
					Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
				}},
			},
		}}},
	}
}

func literal(name, value string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, Value: escape(value)}
}

// escape keeps the kubelet from expanding $(NAME) in a value. Every $ is doubled: of "$$(NAME)" it would expand the rest.
func escape(value string) string { return strings.ReplaceAll(value, "$", "$$") }

func field(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}}}
}

func with(m map[string]string, key, value string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[key] = value
	return m
}
