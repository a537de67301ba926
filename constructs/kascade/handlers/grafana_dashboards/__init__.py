"""Lambda that carries dashboards into Managed Grafana."""
