"""Words for what people want, avoid and require, as data. Written for this project."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# "Without nuts" excludes almonds, too. Singular; matched as words and pairs of words.
KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "nut": ("almond", "walnut", "pecan", "hazelnut", "cashew", "pistachio", "macadamia", "peanut", "peanut butter",
            "brazil nut", "pine nut", "praline", "marzipan", "almond flour", "nutella"),
    "tree nut": ("almond", "walnut", "pecan", "hazelnut", "cashew", "pistachio", "macadamia", "brazil nut"),
    "dairy": ("milk", "butter", "cream", "cheese", "yogurt", "yoghurt", "buttermilk", "ghee", "mozzarella",
              "parmesan", "cheddar", "ricotta", "feta", "mascarpone", "creme fraiche", "sour cream", "whey",
              "gruyere", "custard", "ice cream", "half and half", "brie", "gouda", "cotija", "paneer", "kefir"),
    "milk": ("buttermilk", "condensed milk"),
    "cheese": ("mozzarella", "parmesan", "cheddar", "ricotta", "feta", "mascarpone", "gruyere", "brie", "gouda",
               "goat cheese", "cream cheese", "cotija", "paneer", "pecorino", "halloumi"),
    "gluten": ("wheat", "flour", "barley", "rye", "bread", "pasta", "noodle", "couscous", "bulgur", "semolina",
               "seitan", "farro", "breadcrumb", "soy sauce", "tortilla", "spelt", "graham cracker", "panko"),
    "wheat": ("flour", "pasta", "couscous", "bulgur", "semolina", "seitan", "farro", "breadcrumb", "spelt",
              "graham cracker", "panko", "udon", "ramen"),
    "meat": ("beef", "pork", "chicken", "turkey", "lamb", "veal", "bacon", "ham", "sausage", "prosciutto", "duck",
             "chorizo", "salami", "steak", "venison", "bison", "pancetta", "meatball", "brisket", "rabbit", "elk"),
    "red meat": ("beef", "lamb", "veal", "venison", "bison", "steak", "pork", "elk"),
    "poultry": ("chicken", "turkey", "duck", "quail", "goose"),
    "pork": ("bacon", "ham", "prosciutto", "pancetta", "chorizo", "salami", "sausage", "pork belly", "pork loin"),
    "beef": ("steak", "brisket", "ground beef", "veal"),
    "fish": ("salmon", "tuna", "cod", "trout", "halibut", "anchovy", "sardine", "tilapia", "mackerel", "bass",
             "fish sauce", "haddock", "snapper"),
    "seafood": ("fish", "salmon", "tuna", "cod", "trout", "halibut", "anchovy", "sardine", "tilapia", "mackerel",
                "shrimp", "prawn", "crab", "lobster", "clam", "mussel", "oyster", "scallop", "squid", "octopus"),
    "shellfish": ("shrimp", "prawn", "crab", "lobster", "clam", "mussel", "oyster", "scallop", "crayfish"),
    "egg": ("egg yolk", "egg white", "mayonnaise", "meringue"),
    "soy": ("tofu", "tempeh", "edamame", "soy sauce", "miso", "soybean", "soy milk", "tamari"),
    "sugar": ("brown sugar", "white sugar", "powdered sugar", "granulated sugar", "corn syrup"),
    "alcohol": ("wine", "beer", "rum", "vodka", "whiskey", "whisky", "bourbon", "gin", "brandy", "tequila", "sake",
                "liqueur", "champagne", "cider", "kirsch", "cognac"),
    "mushroom": ("portobello", "shiitake", "cremini", "chanterelle", "morel", "porcini"),
    "chili": ("chile", "jalapeno", "cayenne", "habanero", "chipotle", "chili powder", "red pepper"),
    "leather": ("suede", "cowhide", "nubuck"),
    "plastic": ("polyester", "nylon", "pvc", "polypropylene", "acrylic"),
    "motor": ("electric", "e bike", "ebike", "elektrisch", "elektrische", "elektrisches", "akku", "battery", "engine"),
    "wood": ("wooden", "cedar", "oak", "pine", "larch", "birch", "beech", "ash wood", "walnut wood", "maple wood",
             "teak", "bamboo", "plywood", "timber", "mahogany", "spruce", "hazel"),
    "metal": ("steel", "iron", "brass", "copper", "aluminium", "aluminum", "tin", "bronze", "pewter", "zinc", "silver"),
    "berry": ("strawberry", "blueberry", "raspberry", "blackberry", "cranberry", "huckleberry"),
}  # fmt: skip

_NO_FOODS: Final = ("leather", "plastic", "wood", "metal", "motor")
# Food and drink; a question that excludes some is not about events.
FOODS: Final = frozenset(
    (*(word for kind, kinds in KINDS.items() if kind not in _NO_FOODS for word in (kind, *kinds)),
     *"""garlic onion rice tomato potato pepper honey corn carrot lemon lime orange apple pear banana cinnamon ginger
     coriander cilantro basil parsley mint olive oil vinegar mustard spinach kale cabbage celery cucumber pumpkin squash
     coconut chocolate coffee tea caffeine salt spice bean lentil chickpea pea oat vanilla raisin avocado eggplant
     aubergine zucchini courgette beet leek bread pasta noodle""".split())  # noqa: SIM905
)  # fmt: skip

# A diet as people say it, and (the values that state it, the things that it excludes).
DIETS: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "vegetarian": (("vegetarian", "vegan"), ()),
    "veggie": (("vegetarian", "vegan"), ()),
    "meatless": (("vegetarian", "vegan"), ()),
    "meat-free": (("vegetarian", "vegan"), ()),
    "vegan": (("vegan",), ()),
    "plant-based": (("vegan", "plant based"), ()),
    "pescatarian": (("pescatarian", "vegetarian", "vegan"), ()),
    "gluten-free": (("gluten free",), ()),
    "lactose-free": (("low lactose", "lactose free", "dairy free", "vegan"), ()),
    "dairy-free": (("dairy free", "vegan", "low lactose"), ("dairy",)),
    "nut-free": (("nut free",), ("nut",)),
    "peanut-free": (("peanut free", "nut free"), ("peanut", "peanut butter")),
    "egg-free": (("egg free", "vegan"), ("egg",)),
    "soy-free": (("soy free",), ("soy",)),
    "sugar-free": (("sugar free",), ("sugar", "honey", "maple syrup")),
    "alcohol-free": (("alcohol free", "halal"), ("alcohol",)),
    "non-alcoholic": (("alcohol free", "halal"), ("alcohol",)),
    "low-carb": (("low carb", "keto"), ()),
    "keto": (("keto", "ketogenic"), ()),
    "paleo": (("paleo",), ()),
    "low-fat": (("low fat",), ()),
    "low-calorie": (("low calorie",), ()),
    "low-salt": (("low salt", "low sodium"), ()),
    "low-sodium": (("low salt", "low sodium"), ()),
    "diabetic": (("diabetic",), ()),
    "kosher": (("kosher",), ()),
    "halal": (("halal",), ()),
    "hindu": (("hindu",), ()),
}

# Cuisines, as adjectives: a place that states a different one does not serve these.
CUISINES: Final = tuple(
    """italian japanese mexican chinese indian thai french spanish german greek turkish korean vietnamese lebanese
    moroccan ethiopian american british irish scottish basque portuguese brazilian peruvian polish russian ukrainian
    persian caribbean jamaican cuban argentinian mediterranean scandinavian swedish nordic hungarian austrian swiss
    belgian dutch indonesian malaysian filipino hawaiian cajun creole georgian israeli egyptian tunisian nepalese
    pakistani""".split()  # noqa: SIM905
)

# Languages of events and texts, and their tags.
LANGUAGES: Final[Mapping[str, str]] = {
    "english": "en", "german": "de", "french": "fr", "spanish": "es", "italian": "it", "japanese": "ja", "irish": "ga",
    "dutch": "nl", "portuguese": "pt", "polish": "pl", "chinese": "zh", "russian": "ru", "ukrainian": "uk",
}  # fmt: skip

# What a number with a unit or before a word measures; the first field that items have counts.
MEASURES: Final[Mapping[str, tuple[str, ...]]] = {
    "money": ("price",),
    "star": ("stars",),
    "min": ("totaltime", "duration", "cooktime", "preptime", "timerequired", "performtime"),
    "kcal": ("calories",),
    "g": ("weight", "netcontent"),
    "ml": ("volume", "capacity", "netcontent"),
    "m": ("distance", "length", "height", "width", "depth", "size", "screensize"),
    "GB": ("storage", "memory", "memoryrequirements", "storagerequirements", "capacity", "filesize"),
    "W": ("power", "wattage"),
    "mAh": ("batterycapacity", "battery", "capacity"),
    "serving": ("recipeyield", "yield"),
    "person": ("recipeyield", "yield", "maximumattendeecapacity", "occupancy"),
}
NUTRIENTS: Final[Mapping[str, str]] = {
    "protein": "proteincontent", "fat": "fatcontent", "saturated fat": "saturatedfatcontent",
    "carbs": "carbohydratecontent", "carb": "carbohydratecontent", "carbohydrates": "carbohydratecontent",
    "sugar": "sugarcontent", "fiber": "fibercontent", "fibre": "fibercontent", "sodium": "sodiumcontent",
    "salt": "sodiumcontent", "cholesterol": "cholesterolcontent",
}  # fmt: skip
COUNTED: Final[Mapping[str, str]] = {
    "reviews": "reviewcount", "ratings": "ratingcount", "pages": "numberofpages", "rooms": "numberofrooms",
    "bedrooms": "numberofbedrooms", "ingredients": "numberofingredients", "seats": "seatingcapacity",
}  # fmt: skip

# Other names for a field, in lower case, to its possible names.
ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
    "cost": ("price",), "budget": ("price",), "maxprice": ("price",), "offers.price": ("price",),
    "cuisine": ("recipecuisine", "servescuisine"), "diet": ("suitablefordiet", "keywords"),
    "dietary": ("suitablefordiet", "keywords"), "dietary_restrictions": ("suitablefordiet", "keywords"),
    "rating": ("stars", "ratingvalue"), "star": ("stars",), "stars": ("stars",),
    "course": ("recipecategory",), "meal": ("recipecategory",), "category": ("category", "recipecategory", "genre"),
    "time": ("totaltime", "duration"), "duration": ("duration", "totaltime"), "cooking_time": ("cooktime", "totaltime"),
    "cookingtime": ("cooktime", "totaltime"), "preparation_time": ("preptime",), "total_time": ("totaltime",),
    "ingredient": ("recipeingredient",), "ingredients": ("recipeingredient",), "servings": ("recipeyield",),
    "serves": ("recipeyield",), "yield": ("recipeyield",), "tag": ("keywords",), "tags": ("keywords",),
    "keyword": ("keywords",), "topic": ("about", "keywords"), "date": ("date",), "when": ("date",),
    "startdate": ("date", "startdate"), "start_date": ("date", "startdate"), "published": ("datepublished",),
    "author": ("author", "creator"), "by": ("author", "creator", "brand"), "maker": ("brand", "manufacturer"),
    "manufacturer": ("manufacturer", "brand"), "colour": ("color",), "protein": ("proteincontent",),
    "fat": ("fatcontent",), "sugar": ("sugarcontent",), "carbs": ("carbohydratecontent",),
    "fiber": ("fibercontent",), "sodium": ("sodiumcontent",), "stock": ("availability",),
    "reviews": ("reviewcount",), "title": ("name",),
}  # fmt: skip

# Synonyms, and irregular plurals: a search for one also finds the others.
_ALIKE: Final = (
    "kid kids child children", "woman women", "man men", "person people", "knife knives", "leaf leaves", "loaf loaves",
    "foot feet", "mouse mice", "goose geese", "shelf shelves", "film movie", "bike bicycle", "gift present",
    "couch sofa", "tv television", "photo photograph picture", "painting picture",
    "sweater jumper pullover", "trousers pants", "toy plaything",
    "trainers sneakers", "cab taxi", "car automobile", "shop store", "holiday vacation", "flat apartment",
    "autumn fall", "inexpensive affordable cheap", "mom mum mother", "dad father", "grandma grandmother",
    "grandpa grandfather", "eggplant aubergine", "zucchini courgette", "cilantro coriander", "shrimp prawn",
    "arugula rocket", "chickpea garbanzo", "scallion spring-onion", "cookie biscuit", "soda pop", "yogurt yoghurt",
    "donut doughnut", "chili chile chilli", "gray grey", "theater theatre", "pub tavern bar",
    "veterinarian vet veterinary",
    "pharmacy drugstore", "doctor physician", "lawyer attorney", "author writer", "purchase buy", "rent hire",
    "concert gig music", "dog pet",
    "dog puppy labrador retriever terrier spaniel poodle",
    "wifi wi-fi", "course class lesson", "outdoor outdoors outside", "indoor indoors inside",
    "wool woollen woolen woolly wooly", "hat beanie cap", "campsite campground",
    "scarf shawl", "glove mitten", "rucksack backpack",
    "torch flashlight", "postage shipping delivery", "send ship dispatch deliver",
    "cafetiere plunger", "pushchair stroller buggy", "cot crib", "nappy diaper", "parking carpark",
    "part-time parttime", "colour color", "centre center", "tyre tire", "licence license", "metre meter",
    "programme program", "car vehicle", "jab vaccination", "refund reimburse",
)  # fmt: skip
ALIKE: Final[Mapping[str, tuple[str, ...]]] = {
    word: tuple(
        dict.fromkeys(other for group in _ALIKE for other in group.split() if word in group.split() and other != word)
    )
    for words in _ALIKE
    for word in words.split()
}
# Synonyms that are wider than some of their words: whoever wants no dog may want another pet.
HYPERNYMS: Final = frozenset({"pet", "music", "vehicle", "picture"})
# Foods of two words.
FOOD_PAIRS: Final = frozenset(
    """red meat;tree nut;peanut butter;soy sauce;goat cheese;cream cheese;ice cream;sour cream;bell pepper;olive oil
    ;coconut milk;pine nut;corn syrup;maple syrup;brown sugar;egg yolk;egg white;green onion;sweet potato;palm oil
    ;artificial sweetener;food coloring;brussels sprout;blue cheese;black pepper;dairy product;animal product"""
    .replace("\n    ", "").split(";")
)  # fmt: skip
