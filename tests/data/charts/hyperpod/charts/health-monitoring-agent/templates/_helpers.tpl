{{- define "agent.image" -}}
{{- $accounts := dict "us-east-1" "767398015722" "us-west-2" "905418368575" -}}
{{- $region := default "us-east-1" (default .Values.global.region .Values.region) -}}
{{- if .Values.hmaimage }}{{ .Values.hmaimage }}{{ else -}}
{{- default (get $accounts "us-east-1") (get $accounts $region) }}.dkr.ecr.{{ $region }}.amazonaws.com/agent:1
{{- end }}
{{- end }}
