"""A federation over real sites, carried by Flower: `pip install apfl[flower]`.

`python -m apfl.flower new DIR --spec spec.toml` writes an app folder for `flwr run`; its two
components are `apfl.flower.client_app:app` at the sites and `apfl.flower.server_app:app` at the
server. Neither knows what is in the letters that it carries. docs/FEDERATION.md of the project is
the guide.
"""
