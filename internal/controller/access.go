package controller

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// maxWorkerAccounts bounds the service accounts of one namespace that have the worker role.
const maxWorkerAccounts = 100

// WorkerRole is the ClusterRole that lets an agent patch Leases, and the name of its binding in each namespace with tasks.
const WorkerRole = "leasehold-worker"

// defaultAccount is what Pods run under that name none. Every namespace gets it, if a moment late.
const defaultAccount = "default"

// bindWorkerRole makes sure that the service account that a Pod runs under may speak through its mailbox. There is one
// RoleBinding a namespace; each account is added to it once, before the first grant that needs it.
func (r *Reconciler) bindWorkerRole(ctx context.Context, namespace, account string) error {
	account = cmp.Or(account, defaultAccount)
	subject := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: namespace}
	role := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: WorkerRole}
	binding := &rbacv1.RoleBinding{}
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: WorkerRole}, binding)
	switch {
	case apierrors.IsNotFound(err):
		if err := r.mayBind(ctx, subject, nil); err != nil {
			return err
		}
		binding = &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: WorkerRole},
			RoleRef:    role, Subjects: []rbacv1.Subject{subject},
		}
		err = r.Client.Create(ctx, binding)
		switch {
		case apierrors.IsAlreadyExists(err):
			return lostError{fmt.Errorf("bind worker role: %w", err)}
		case hasCauses(err):
			return problemError(fmt.Sprintf("service account %q: %v", subject.Name, err))
		}
		return wrapUnless(isNamespaceTerminating, err, "bind worker role")
	case err != nil:
		return fmt.Errorf("get worker role binding: %w", err)
	case binding.RoleRef != role:
		return problemError(fmt.Sprintf("RoleBinding %s/%s binds another role: delete it", namespace, WorkerRole))
	case slices.Contains(binding.Subjects, subject):
		return nil
	}
	if err := r.mayBind(ctx, subject, binding.Subjects); err != nil {
		return err
	}
	err = r.Client.Patch(ctx, binding, client.RawPatch(types.JSONPatchType, addSubject(binding, subject)))
	if hasCauses(err) {
		return problemError(fmt.Sprintf("service account %q: %v", subject.Name, err))
	}
	if apierrors.IsInvalid(err) || apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return lostError{fmt.Errorf("bind worker role: %w", err)}
	}
	return wrapUnless(isNamespaceTerminating, err, "bind worker role")
}

// hasCauses tells an object that the API server finds invalid, and always will, from a patch whose test failed.
func hasCauses(err error) bool { return len(causesOf(err)) > 0 }

// causesOf is what the API server, or a policy, finds wrong with an object that it does not take.
func causesOf(err error) []metav1.StatusCause {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || !apierrors.IsInvalid(err) || status.ErrStatus.Details == nil {
		return nil
	}
	return status.ErrStatus.Details.Causes
}

// isUnreasoned reports whether an error is the 422 of a policy that denies without a reason, or cannot be evaluated: its causes name
// no field. It says nothing about the object.
func isUnreasoned(err error) bool {
	return hasCauses(err) && !slices.ContainsFunc(causesOf(err), func(c metav1.StatusCause) bool { return c.Field != "" })
}

// mayBind looks at what must be true before an account gets the role. Whoever may create tasks names accounts: names of none
// would pile up in the binding, and stand there for whoever makes such an account later.
func (r *Reconciler) mayBind(ctx context.Context, account rbacv1.Subject, others []rbacv1.Subject) error {
	if len(others) >= maxWorkerAccounts {
		return problemError(fmt.Sprintf("service account %q: RoleBinding %s has %d accounts, and no more are added: remove those that no task uses",
			account.Name, WorkerRole, len(others)))
	}
	if account.Name != defaultAccount {
		found := &metav1.PartialObjectMetadata{}
		found.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ServiceAccount"))
		err := r.Live.Get(ctx, types.NamespacedName{Namespace: account.Namespace, Name: account.Name}, found)
		if apierrors.IsNotFound(err) {
			return problemError(fmt.Sprintf("service account %q does not exist", account.Name))
		}
		if err != nil {
			return fmt.Errorf("get service account: %w", err)
		}
	}
	return r.requirePolicies(ctx)
}

// policies guard the mailbox. The worker role without them would let any worker patch any Lease of its namespace.
var policies = []string{"leasehold-mailbox", "leasehold-lease-create"}

// requirePolicies makes sure that the policies and their bindings are in force before anybody gets the role.
func (r *Reconciler) requirePolicies(ctx context.Context) error {
	for _, name := range policies {
		for _, o := range []client.Object{
			&admissionv1.ValidatingAdmissionPolicy{}, &admissionv1.ValidatingAdmissionPolicyBinding{},
		} {
			err := r.Live.Get(ctx, types.NamespacedName{Name: name}, o)
			if apierrors.IsNotFound(err) {
				return problemError(fmt.Sprintf("%T %s is missing: without it the worker role is not handed out", o, name))
			}
			if err != nil {
				return fmt.Errorf("get admission policy: %w", err)
			}
		}
	}
	return nil
}

// addSubject is a JSON patch that adds a subject to the binding as it was read.
func addSubject(binding *rbacv1.RoleBinding, subject rbacv1.Subject) []byte {
	type op struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	ops := []op{{"test", "/metadata/resourceVersion", binding.ResourceVersion}}
	if binding.Subjects == nil {
		ops = append(ops, op{"add", "/subjects", []rbacv1.Subject{subject}})
	} else {
		ops = append(ops, op{"add", "/subjects/-", subject})
	}
	raw, err := json.Marshal(ops)
	if err != nil {
		panic(fmt.Sprintf("a patch of strings cannot fail to encode: %v", err)) // programming error
	}
	return raw
}

// wrapUnless adds context to an error that is not an outcome.
func wrapUnless(isOutcome func(error) bool, err error, what string) error {
	if err == nil || isOutcome(err) {
		return err
	}
	return fmt.Errorf("%s: %w", what, err)
}
