"""Write the dashboards, and what scrapes their metrics, for a Grafana and a Prometheus of your own.

Grafana imports the JSON files as they are. Prometheus, in the cluster, takes `scrape.yaml` under
`scrape_config_files`. Kascade's pods let in whoever stands in the `collector_cidrs` that they were
planned with.
"""

from pathlib import Path

from kascade.observability.boards import dashboards
from kascade.observability.scrape import scrape_jobs

FOLDER = Path("own-boards")
FOLDER.mkdir(exist_ok=True)
for uid, text in dashboards().items():
    (FOLDER / f"{uid}.json").write_text(text)
jobs = scrape_jobs(cluster="mine", serving_namespace="llm", cache_namespace="pool")
(FOLDER / "scrape.yaml").write_text(jobs)
