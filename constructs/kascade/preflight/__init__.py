"""``kascade preflight``: whether an account can take a deployment. It only reads."""
