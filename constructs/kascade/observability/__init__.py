"""What is measured and how it is shown: metric names, panels, boards, scrape jobs."""
