{{- define "leasehold.labels" -}}
app.kubernetes.io/name: leasehold
app.kubernetes.io/part-of: leasehold
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* An image reference; the digest, when set, stands for the tag. */ -}}
{{- define "leasehold.image" -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ required "an image needs a tag or a digest" .tag }}
{{- end -}}
{{- end }}
