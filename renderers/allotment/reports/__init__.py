"""What people read: summaries in Markdown, tables on a terminal."""
