"""Products from shop APIs: Shopify's ``products.json`` and WooCommerce's Store API, to schema.org. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from urllib.parse import urljoin, urlsplit

from sabir.search.items.item import JSON
from sabir.search.items.schema_org import plain
from sabir.search.query.units import number

_DEFAULT_VARIANT: Final = "Default Title"
# Option names of shops, to filterable properties.
_OPTIONS: Final = {"color": "color", "colour": "color", "farbe": "color", "size": "size", "größe": "size",
                   "material": "material"}  # fmt: skip
_ATTRIBUTES: Final = {**_OPTIONS, "brand": "brand", "marke": "brand", "marca": "brand", "marque": "brand"}


def is_shopify(data: JSON) -> bool:
    """Whether this is ``products.json``, or one product of it."""
    products = data.get("products", data.get("product")) if isinstance(data, dict) else None
    first = products[0] if isinstance(products, list) and products else products
    return isinstance(first, dict) and "handle" in first and isinstance(first.get("variants"), list)


def is_woocommerce(data: JSON) -> bool:
    """Whether this is a response of ``/wp-json/wc/store/products``."""
    first = data[0] if isinstance(data, list) and data else data
    return isinstance(first, dict) and "permalink" in first and isinstance(first.get("prices"), dict)


def shopify(data: JSON, url: str, site: str) -> Iterator[dict[str, JSON]]:
    """Every product, one object each; its variants are offers."""
    products = data.get("products", data.get("product"))
    for product in products if isinstance(products, list) else [products]:
        if isinstance(product, dict):
            yield _filled(_shopify_product(product, _home(url, site)))


def woocommerce(data: JSON) -> Iterator[dict[str, JSON]]:
    for product in data if isinstance(data, list) else [data]:
        if isinstance(product, dict):
            yield _filled(_woocommerce_product(product))


def _home(url: str, site: str) -> str:
    return urljoin(url, "/") if urlsplit(url).scheme in ("http", "https") else f"https://{site}/"


def _shopify_product(product: dict[str, JSON], home: str) -> dict[str, JSON]:
    address = urljoin(home, f"products/{product['handle']}")
    variants = [item for item in product.get("variants") or () if isinstance(item, dict)]
    tags = product.get("tags") or []
    images = [image["src"] for image in product.get("images") or () if isinstance(image, dict) and image.get("src")]
    return {
        "@type": "Product",
        "@id": address,
        "url": address,
        "name": product.get("title"),
        "description": plain(product.get("body_html") or ""),
        "brand": product.get("vendor"),
        "category": product.get("product_type"),
        "keywords": [
            *(tag.strip() for tag in (tags.split(",") if isinstance(tags, str) else tags)),
            *_reduced(variants),
        ],
        "image": images[:1],
        "datePublished": product.get("published_at"),
        "sku": next((variant.get("sku") for variant in variants if variant.get("sku")), None),
        "offers": [_shopify_offer(variant, address) for variant in variants],
        **_shopify_options(product.get("options")),
    }


def _shopify_offer(variant: dict[str, JSON], address: str) -> dict[str, JSON]:
    title = variant.get("title")
    available = variant.get("available", True)
    return _filled(
        {
            "@type": "Offer",
            "name": None if title == _DEFAULT_VARIANT else title,
            "price": variant.get("price"),
            "priceCurrency": variant.get("price_currency"),
            "availability": f"https://schema.org/{'InStock' if available else 'OutOfStock'}",
            "url": f"{address}?variant={variant.get('id')}",
        }
    )


def _shopify_options(options: JSON) -> dict[str, JSON]:
    found: dict[str, JSON] = {}
    for option in options if isinstance(options, list) else ():
        name = _OPTIONS.get(str(option.get("name")).casefold()) if isinstance(option, dict) else None
        if name:
            found[name] = option.get("values")
    return found


def _woocommerce_product(product: dict[str, JSON]) -> dict[str, JSON]:
    prices = product["prices"]
    unit = 10 ** int(prices.get("currency_minor_unit") or 0)
    in_stock = product.get("is_in_stock", True)
    return _woocommerce_attributes(product.get("attributes")) | {
        "@type": "Product",
        "@id": product["permalink"],
        "url": product["permalink"],
        "name": plain(product.get("name") or ""),
        "description": plain(product.get("short_description") or product.get("description") or ""),
        "text": plain(product.get("description") or "") if product.get("short_description") else None,
        "sku": product.get("sku"),
        **_if_any("brand", _first_name(product.get("brands"))),
        "category": _first_name(product.get("categories")),
        "keywords": [
            *(item.get("name") for item in product.get("tags") or () if isinstance(item, dict)),
            *(["on sale"] if product.get("on_sale") is True else []),
        ],
        "image": [image.get("src") for image in product.get("images") or () if isinstance(image, dict)][:1],
        "aggregateRating": _rating(product),
        "offers": {
            **_woocommerce_price(prices, unit),
            "priceCurrency": prices.get("currency_code"),
            "availability": f"https://schema.org/{'InStock' if in_stock else 'OutOfStock'}",
        },
    }


def _woocommerce_price(prices: dict[str, JSON], unit: int) -> dict[str, JSON]:
    """The price; of a product with variants, the lowest and the highest one."""

    def amount(of: dict[str, JSON], name: str) -> float | None:
        return float(of[name]) / unit if str(of.get(name) or "").isdecimal() else None

    span = prices.get("price_range")
    low, high = (
        (amount(span, name) for name in ("min_amount", "max_amount")) if isinstance(span, dict) else (None, None)
    )
    if low is not None and high is not None and low < high:
        return {"@type": "AggregateOffer", "lowPrice": low, "highPrice": high}
    return {"@type": "Offer", "price": amount(prices, "price")}


def _woocommerce_attributes(attributes: JSON) -> dict[str, JSON]:
    """What a shop states of a product under names of its own: "Height", "Pet safe"."""
    found: dict[str, JSON] = {}
    for attribute in attributes if isinstance(attributes, list) else ():
        terms = attribute.get("terms") if isinstance(attribute, dict) else None
        values = [term["name"] for term in terms or () if isinstance(term, dict) and term.get("name")]
        if values and (name := str(attribute.get("name") or "")):
            found[_ATTRIBUTES.get(name.casefold(), name)] = values if len(values) > 1 else values[0]
    return found


def _if_any(name: str, value: JSON) -> dict[str, JSON]:
    return {name: value} if value else {}


def _rating(product: dict[str, JSON]) -> JSON:
    if not product.get("review_count"):
        return None
    return {"ratingValue": product.get("average_rating"), "reviewCount": product["review_count"]}


def _first_name(terms: JSON) -> JSON:
    return next((term.get("name") for term in terms or () if isinstance(term, dict)), None)


def _filled(node: dict[str, JSON]) -> dict[str, JSON]:
    return {name: value for name, value in node.items() if value not in (None, "", [], {})}


def _reduced(variants: list[dict[str, JSON]]) -> list[str]:
    """Whether a variant is reduced in price, by Shopify's fields."""
    pairs = [(number(str(variant.get("compare_at_price"))), number(str(variant.get("price")))) for variant in variants]
    return ["on sale"] if any(was is not None and now is not None and was > now for was, now in pairs) else []
