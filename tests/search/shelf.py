"""A small site whose every item is known by heart: what the filter tables and the contract run on."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sabir.search import Item
from sabir.search.items.schema_org import items

NOW = datetime(2026, 5, 20, 12, tzinfo=UTC)  # a Wednesday

Node = dict[str, Any]


def place(name: str, city: str, region: str, lat: float | None = None, lon: float | None = None) -> Node:
    address = {"@type": "PostalAddress", "addressLocality": city, "addressRegion": region, "addressCountry": "US"}
    made: Node = {"@type": "Place", "name": name, "address": address}
    if lat is not None:
        made["geo"] = {"@type": "GeoCoordinates", "latitude": lat, "longitude": lon}
    return made


def price(amount: float, currency: str = "USD", **more: Any) -> Node:
    return {"@type": "Offer", "price": amount, "priceCurrency": currency, **more}


def rating(value: float, count: int, best: float | None = None) -> Node:
    made: Node = {"@type": "AggregateRating", "ratingValue": value, "reviewCount": count}
    return made if best is None else {**made, "bestRating": best}


def diet(*names: str) -> list[str]:
    return [f"https://schema.org/{name}Diet" for name in names]


BOISE = place("Julia Davis Park", "Boise", "ID", 43.606, -116.199)
KETCHUM = place("Town Square", "Ketchum", "ID", 43.681, -114.364)
PORTLAND = place("Pioneer Hall", "Portland", "OR", 45.519, -122.679)

SHOP: list[Node] = [
    {"@type": "Recipe", "@id": "r1", "name": "Pumpkin soup", "recipeCuisine": "American", "recipeCategory": "Soup",
     "suitableForDiet": diet("Vegan", "GlutenFree"), "prepTime": "PT10M", "cookTime": "PT20M", "offers": price(8),
     "aggregateRating": rating(4.6, 120), "recipeYield": "4 servings", "datePublished": "2026-01-10",
     "nutrition": {"calories": "210 calories", "proteinContent": "6 g", "sugarContent": "8 g"},
     "recipeIngredient": ["1 small pumpkin", "1 can coconut milk", "1 onion", "1 teaspoon cinnamon"],
     "contentLocation": BOISE, "description": "A bowl of autumn. It freezes well and needs no stirring."},
    {"@type": "Recipe", "@id": "r2", "name": "Walnut brownies", "recipeCuisine": "American",
     "recipeCategory": "Dessert", "suitableForDiet": diet("Vegetarian"), "totalTime": "PT50M", "offers": price(12),
     "aggregateRating": rating(4.2, 40), "recipeYield": "12", "datePublished": "2025-06-01",
     "nutrition": {"calories": "420 calories", "proteinContent": "7 g", "sugarContent": "30 g"},
     "recipeIngredient": ["200 g flour", "150 g butter", "3 eggs", "1 cup walnuts", "200 g dark chocolate"],
     "description": "Dense and dark. They keep for a week in a tin."},
    {"@type": "Recipe", "@id": "r3", "name": "Chicken curry", "recipeCuisine": "Indian",
     "recipeCategory": "Main course", "totalTime": "PT45M", "offers": price(22),
     "aggregateRating": rating(9.6, 300, 10), "recipeYield": "6 servings", "datePublished": "2024-03-01",
     "nutrition": {"calories": "520 kcal", "proteinContent": "35 g", "sugarContent": "5 g"},
     "recipeIngredient": ["800 g chicken thighs", "1 cup yogurt", "2 tablespoons garam masala", "2 chilies"]},
    {"@type": "Recipe", "@id": "r4", "name": "Lemon rice noodles", "recipeCuisine": ["Thai"],
     "recipeCategory": "Main course", "suitableForDiet": diet("Vegan", "GlutenFree"), "totalTime": "PT20M",
     "offers": price(9.5, "EUR"), "aggregateRating": rating(3.9, 15), "recipeYield": "2 servings",
     "datePublished": "2026-04-20", "nutrition": {"calories": "350 calories", "proteinContent": "9 g"},
     "recipeIngredient": ["200 g rice noodles", "2 lemons", "3 tablespoons peanut butter", "tofu"]},
    {"@type": "Recipe", "@id": "r5", "name": "Cheese omelette", "recipeCuisine": "French",
     "recipeCategory": "Breakfast", "suitableForDiet": diet("Vegetarian", "GlutenFree"), "totalTime": "PT10M",
     "aggregateRating": rating(4.0, 80), "recipeYield": "1 serving", "datePublished": "2026-05-01",
     "nutrition": {"calories": "310 calories", "proteinContent": "21 g", "sugarContent": "1 g"},
     "recipeIngredient": ["3 eggs", "50 g cheddar", "1 knob of butter"]},
    {"@type": "Product", "@id": "p1", "name": "Ridge tent", "brand": {"@type": "Brand", "name": "Acme"},
     "color": "green", "material": "nylon", "category": "Camping", "aggregateRating": rating(4.5, 210),
     "offers": price(299, availability="https://schema.org/InStock"),
     "weight": {"@type": "QuantitativeValue", "value": 2.4, "unitCode": "KGM"}},
    {"@type": "Product", "@id": "p2", "name": "Trail lamp", "brand": {"name": "Lumo"}, "color": "black",
     "category": "Camping", "aggregateRating": rating(3.5, 12), "weight": "90 g",
     "offers": price(25, availability="InStock")},
    {"@type": "Product", "@id": "p3", "name": "City backpack", "brand": "Acme Outdoor", "color": "dark blue",
     "material": "leather", "category": "Bags", "aggregateRating": rating(4.1, 55),
     "weight": {"@type": "QuantitativeValue", "value": 900, "unitCode": "GRM"},
     "additionalProperty": {"@type": "PropertyValue", "name": "Volume", "value": 22, "unitCode": "LTR"},
     "offers": {"@type": "AggregateOffer", "lowPrice": "79.90", "highPrice": "95.00", "priceCurrency": "USD",
                "availability": "https://schema.org/OutOfStock"}},
    {"@type": "Product", "@id": "p4", "name": "Zeta phone", "brand": "Zeta", "color": "black",
     "category": "Phones", "aggregateRating": rating(4.7, 900), "weight": "180 g",
     "additionalProperty": [{"@type": "PropertyValue", "name": "Storage", "value": "128 GB"}],
     "offers": price(650, "EUR", availability="https://schema.org/InStock")},
    {"@type": "MusicEvent", "@id": "e1", "name": "Jazz in the park", "startDate": "2026-05-23T19:00:00-06:00",
     "isAccessibleForFree": True, "location": BOISE},
    {"@type": "Festival", "@id": "e2", "name": "Harvest festival", "startDate": "2026-09-12", "endDate": "2026-09-14",
     "offers": price(15), "location": KETCHUM},
    {"@type": "EducationEvent", "@id": "e3", "name": "Woodturning workshop", "startDate": "2026-06-05T09:00",
     "offers": price(120), "location": PORTLAND},
    {"@type": "MusicEvent", "@id": "e4", "name": "Spring concert", "startDate": "2026-04-10T20:00:00-06:00",
     "offers": price(30), "location": BOISE},
    {"@type": "CafeOrCoffeeShop", "@id": "l1", "name": "Bean & Leaf", "priceRange": "$", **BOISE | {
        "@type": "CafeOrCoffeeShop", "name": "Bean & Leaf"}, "aggregateRating": rating(4.4, 98),
     "amenityFeature": [{"@type": "LocationFeatureSpecification", "name": "Outdoor seating", "value": True}]},
    {"@type": "Restaurant", "@id": "l2", "servesCuisine": "Mexican", "aggregateRating": rating(4.0, 61),
     **place("La Fonda", "Nampa", "Idaho", 43.541, -116.563) | {"@type": "Restaurant"},
     "amenityFeature": [{"@type": "LocationFeatureSpecification", "name": "Gluten-free options", "value": True}]},
    {"@id": "l3", **PORTLAND | {"@type": "Museum", "name": "Museum of Wood"}},
    {"@id": "l4", **place("Hotel Sawtooth", "Ketchum", "ID") | {"@type": "Hotel"}, "starRating": rating(4.9, 33)},
]  # fmt: skip
BLOG: list[Node] = [
    {"@type": "BlogPosting", "@id": "a1", "headline": "Choosing hiking boots", "datePublished": "2026-02-14",
     "author": {"@type": "Person", "name": "Jane Smith"}, "keywords": "hiking, boots",
     "articleBody": "Boots should leave a thumb of room. Walk in them for a week before a long trip."},
    {"@type": "Article", "@id": "a2", "headline": "Baking for a school", "datePublished": "2023-11-02",
     "author": {"@type": "Person", "name": "Omar Diaz"}, "keywords": ["baking", "nut-free"],
     "articleBody": "All of these cakes are made without nuts. Seeds give them a bite."},
]  # fmt: skip


def shelf() -> list[Item]:
    """Every item, with ids as they are written above."""
    read = [*items(SHOP, site="shop.example", source="shop"), *items(BLOG, site="blog.example", source="blog")]
    assert all(isinstance(item, Item) for item in read), read
    return [item for item in read if isinstance(item, Item)]


ALL = frozenset(item["@id"] for item in SHOP + BLOG)
