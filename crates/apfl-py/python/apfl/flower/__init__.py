"""Federations over real sites, with Flower as transport: `pip install apfl[flower]`.

`python -m apfl.flower new DIR --spec spec.toml` writes an app folder for `flwr run`. Its components
are `apfl.flower.client_app:app` at the sites and `apfl.flower.server_app:app` at the server; both
transport opaque messages. The guide is docs/FEDERATION.md of the project.
"""
